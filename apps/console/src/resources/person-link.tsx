import { useWhyNot } from '~/lib/session.tsx';
import { Link, LongName } from '~/ui/text.tsx';
import { doneBy, isPerson } from './names.ts';

/**
 * The name of a person or a token, as the audit and events have it, with a link to everything that they
 * did. Without a link for those who may not read the audit, and for what no person did.
 */
export function PersonLink({ name }: { readonly name: string }) {
  const isAllowed = useWhyNot('operator') === undefined;
  if (!isAllowed || !isPerson(name)) return <LongName>{name}</LongName>;
  return (
    <Link href={doneBy(name)} title={`Everything by ${name}`}>
      <LongName>{name}</LongName>
    </Link>
  );
}
