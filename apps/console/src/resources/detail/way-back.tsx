import { fieldText } from '~/lib/search.ts';
import { Link, VisibleText } from '~/ui/text.tsx';

/** The way back to a list, and the namespace that something is in, with the list of what is in it. */
export function WayBack({
  label,
  list,
  namespace,
}: {
  readonly label: string;
  /** The address of the list. */
  readonly list: (params?: Readonly<Record<string, string>>) => string;
  readonly namespace: string;
}) {
  return (
    <>
      <Link href={list()}>{label}</Link>
      {namespace === '' ? null : (
        <>
          {' / '}
          <Link href={list({ q: fieldText('namespace', namespace) })}>
            <VisibleText>{namespace}</VisibleText>
          </Link>
        </>
      )}
    </>
  );
}
