import { count } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { type ResourceRef, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import type { GrantFace } from '~/resources/grant-view.ts';
import { Link, Mono, RelativeTime, VisibleText } from '~/ui/text.tsx';

const DAY_MINUTES = 24 * 60;
const EVERY_MS = 5_000;

/** Who was refused it last, when and why, of the last day and since an instant; nothing without a refusal. */
export function LastRefusal({
  face,
  resource: { namespace, name, datacenter },
  since,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** Since its last grant: an earlier refusal explains nothing. */
  readonly since?: string;
}) {
  const input = { face, namespace, name, ...at(datacenter), limit: 1, windowMinutes: DAY_MINUTES };
  const { data } = useLiveQuery('refusals', 'list', input, { everyMs: EVERY_MS });
  const [last] = data?.items ?? [];
  if (last === undefined || (since !== undefined && last.lastAt < since)) return null;
  return (
    <p className="small-print" role="status">
      {face === 'key' ? 'The last connect was refused ' : 'It was refused last '}
      <RelativeTime at={last.lastAt} {...(data === undefined ? {} : { asOf: data.asOf })} />
      {`, to `}
      <VisibleText>{last.holder ?? last.actor}</VisibleText>
      {': '}
      <VisibleText>{last.reason}</VisibleText> <Mono>{last.code}</Mono>{' '}
      <Link href={routes.refusals({ face, q: searchOf(namespace, name) })}>
        {last.count === 1 ? 'Refusals' : `${count(last.count)} refusals in this hour`}
      </Link>
    </p>
  );
}

/** The search that finds the refusals of one resource. */
function searchOf(namespace: string, name: string): string {
  return namespace === '' ? `"${name}"` : `${fieldText('namespace', namespace)} "${name}"`;
}
