import { type ComponentProps, createContext, useContext } from 'react';
import { Link } from '~/ui/text.tsx';

/**
 * The datacenter whose numbers the overview shows; undefined where it is the only one. A list shows the rows of all
 * datacenters unless its address names one.
 */
export const OwnDatacenter = createContext<string | undefined>(undefined);

/** A link from a number to the rows that it counts: those of this datacenter alone. */
export function RowsLink({
  href,
  ...rest
}: ComponentProps<typeof Link> & { readonly href: string }) {
  const datacenter = useContext(OwnDatacenter);
  return (
    <Link href={datacenter === undefined ? href : withDatacenter(href, datacenter)} {...rest} />
  );
}

function withDatacenter(href: string, datacenter: string): string {
  const [path = '', params] = href.split('?');
  const named = new URLSearchParams(params);
  named.set('datacenter', datacenter);
  return `${path}?${named.toString()}`;
}
