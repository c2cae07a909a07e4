import { fieldText } from '~/lib/search/search-text.ts';
import { Link } from '~/ui/link.tsx';

/** The way back to a list, and the namespace that something is in. */
export function WayBack({
  label,
  list,
  namespace,
  isSearched = false,
}: {
  readonly label: string;
  /** The address of the list. */
  readonly list: (params?: Readonly<Record<string, string>>) => string;
  readonly namespace: string;
  /** Whether the namespace links to the list of what is in it. */
  readonly isSearched?: boolean;
}) {
  const name = <bdi>{namespace}</bdi>;
  return (
    <>
      <Link href={list()}>{label}</Link>
      {namespace === '' ? null : (
        <>
          {' / '}
          {isSearched ? (
            <Link href={list({ q: fieldText('namespace', namespace) })}>{name}</Link>
          ) : (
            name
          )}
        </>
      )}
    </>
  );
}
