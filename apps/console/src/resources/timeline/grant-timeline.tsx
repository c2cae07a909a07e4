import { column, type Column } from '~/ui/table/column.ts';
import { EmptyState } from '~/ui/states/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { CopyableId, Mono, RelativeTime } from '~/ui/text/text.tsx';
import { duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { GROUP_OF, type GrantFace } from '../grant-view.ts';
import { barOf, grantsOfEvents, storyOf, type PastGrant } from './grants-of-events.ts';
import { useDetailList } from '../detail/use-detail-list.ts';
import { mapItems } from '~/ui/table/map-items.ts';
import classes from './grant-timeline.module.css';

/** A row of the timeline: the grant, and its place on the axis of the page. */
interface TimelineRow extends PastGrant {
  readonly bar: { readonly start: number; readonly length: number };
  readonly asOf: string;
}

/** Who held it, with which token, from when to when, how it ended and why; newest first, paged. */
export function GrantTimeline({
  face,
  resource,
  asOf,
}: {
  readonly face: GrantFace;
  readonly resource: ResourceRef;
  /** When the page's data was made. */
  readonly asOf: string;
}) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  const { input, isFirstPage, table } = useDetailList(resource);
  const read = useLiveQuery(GROUP_OF[face], 'history', input);
  const grants = grantsOfEvents(read.data?.items ?? [], { isNewestPage: isFirstPage });
  const axis = axisOf(grants, nowMs);
  const rows = grants.map((grant) => ({ ...grant, bar: barOf(grant, axis), asOf }));
  return (
    <DataTable
      label="grants"
      columns={COLUMNS}
      read={mapItems(read, rows, asOf)}
      rowId={(grant) => grant.leaseId}
      {...table}
      empty={<EmptyState title="No grants">The history is no longer kept.</EmptyState>}
    />
  );
}

/** From the oldest beginning on the page to the newest end; now, while one lasts. */
function axisOf(
  grants: readonly PastGrant[],
  nowMs: number,
): { readonly fromMs: number; readonly toMs: number } {
  const known = grants.flatMap(({ from, to }) => [from, to]).flatMap((at) => at ?? []);
  const times = known.map((at) => Date.parse(at));
  const isOpen = grants.some(({ isLasting }) => isLasting);
  return {
    fromMs: Math.min(nowMs, ...times),
    toMs: isOpen ? nowMs : Math.max(...times),
  };
}

function percent(share: number): string {
  return `${(share * 100).toFixed(2)}%`;
}

const COLUMNS: Column<TimelineRow>[] = [
  column('Token', {}, (grant) => <CopyableId id={grant.fencingToken} label="fencing token" />),
  column('Holder', { from: 'sm' }, (grant) =>
    grant.holder === null ? '–' : <Mono title={grant.holder}>{grant.holder}</Mono>,
  ),
  column('When', { from: 'md' }, (grant) => (
    <span className={classes['axis']} aria-hidden>
      <span
        className={classes['bar']}
        data-end={endKind(grant)}
        style={{ left: percent(grant.bar.start), width: percent(grant.bar.length) }}
      />
    </span>
  )),
  column('From', { from: 'lg' }, (grant) =>
    grant.from === null ? 'before' : <RelativeTime at={grant.from} asOf={grant.asOf} />,
  ),
  column('Held for', {}, (grant) => <HeldFor grant={grant} />),
  column('What happened', { isFilling: true }, (grant) => <HowItWent grant={grant} />),
];

function HeldFor({ grant }: { readonly grant: TimelineRow }) {
  const nowMs = useDatabaseNow() ?? Date.parse(grant.asOf);
  if (grant.from === null || (grant.to === null && !grant.isLasting)) return '–';
  const toMs = grant.to === null ? nowMs : Date.parse(grant.to);
  return duration(toMs - Date.parse(grant.from));
}

function HowItWent({ grant }: { readonly grant: TimelineRow }) {
  const text = storyOf(grant);
  return (
    <span className={classes['went']} data-end={endKind(grant)} title={text}>
      {text}
    </span>
  );
}

function endKind({ end, isLasting }: TimelineRow): string | undefined {
  return isLasting ? 'lasts' : end?.kind;
}
