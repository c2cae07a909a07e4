import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { type Face, FACES, resourceText } from '@leasehold/keys-core';
import type { ContentionView } from '@leasehold/keys-core/leases';
import { choiceParam, textParam, useQueryStates } from '~/lib/address.ts';
import { type DatacenterFilter, useDatacenterFilter } from '~/lib/datacenters.ts';
import { absolute, count, countText, duration } from '~/lib/format.ts';
import { type ListState, useListState } from '~/lib/list-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { FACE_WORDS } from '~/resources/grant-view.ts';
import { DatacenterMenu } from '~/resources/list/list-parts.tsx';
import { FilterMenu, SearchBox } from '~/ui/filters.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { EmptyState, ErrorState, UnreachableNotice } from '~/ui/states.tsx';
import { TableFooter } from '~/ui/table/data-table.tsx';
import { useHeldRows } from '~/ui/table/held-rows.ts';
import { LoadingRows } from '~/ui/table/table-rows.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import classes from './leases.module.css';
import tableClasses from '~/ui/table/data-table.module.css';

const FACE_LABELS: Record<Face, string> = {
  key: 'Keys',
  lease: 'Leases',
  environment: 'Environments',
};
const FACE_OPTIONS = FACES.map((value) => ({ value, label: FACE_LABELS[value] }));
const PAGE_ROWS = 200;
/** Waiters come and go without events. */
const EVERY_MS = 1_500;

/** Who waits for whom, the longest wait first. */
export function ContentionTab() {
  const state = useListState({ fields: ['namespace'], sorts: ['since'] });
  const filter = useDatacenterFilter();
  const [{ type: face }, setAddress] = useQueryStates({
    type: choiceParam(FACES),
    after: textParam,
  });
  const { fields, name, contains } = state.search;
  const namespace = (fields['namespace'] ?? name ?? contains ?? '').replace(/\.+$/u, '');
  return (
    <>
      <FilterRow>
        <SearchBox
          label="Search by namespace"
          placeholder="Namespace, children included"
          value={state.q}
          problems={state.search.problems}
          onChange={state.setQ}
        />
        <FilterMenu
          label="Type"
          value={face ?? undefined}
          options={FACE_OPTIONS}
          onChange={(value) =>
            setAddress({ type: FACES.find((one) => one === value) ?? null, after: null })
          }
        />
        <DatacenterMenu filter={filter} />
      </FilterRow>
      <Lines {...{ face, namespace, state, filter }} />
    </>
  );
}

function Lines({
  face,
  namespace,
  state,
  filter,
}: {
  readonly face: Face | null;
  readonly namespace: string;
  readonly state: ListState<'since'>;
  readonly filter: DatacenterFilter;
}) {
  const input = {
    limit: PAGE_ROWS,
    faces: face === null ? [...FACES] : [face],
    ...filter.input,
    namespace: namespace || undefined,
    cursor: state.after ?? undefined,
  };
  const identity = JSON.stringify(input);
  const read = useLiveQuery('leases', 'contention', input, { everyMs: EVERY_MS });
  const [isTouched, setTouched] = useState(false);
  const newest = linesOf(read.data?.items ?? []);
  const held = useHeldRows<Line>(newest, {
    identity,
    isStandIn: read.isPlaceholderData,
    isHeld: isTouched,
    rowId: ({ id }) => id,
  });
  const table = {
    lines: held.rows,
    asOf: read.data?.asOf,
    isLoading: read.data === undefined,
    onTouched: setTouched,
  };
  if (read.data === undefined && read.isError) {
    return <ErrorState read={read} what="the waiters" />;
  }
  return (
    <StaleScope read={read}>
      <UnreachableNotice unreachable={read.data?.unreachable} />
      <Changes count={held.changeCount} onShow={held.showAll} />
      <ContentionTable {...table} empty={<NobodyWaits namespace={namespace} />} />
      <TableFooter
        read={read}
        label="waiters"
        state={state}
        identity={identity}
        rowCount={read.data?.items.length ?? 0}
        isOfOthers={filter.isOfOthers}
      />
    </StaleScope>
  );
}

function Changes({ count, onShow }: { readonly count: number; readonly onShow: () => void }) {
  if (count === 0) return null;
  return (
    <Button variant="light" size="compact-xs" className={classes['changes'] ?? ''} onClick={onShow}>
      {countText(count, 'change')}: show
    </Button>
  );
}

function NobodyWaits({ namespace }: { readonly namespace: string }) {
  return (
    <EmptyState title="Nobody is waiting">
      {namespace === ''
        ? 'Every caller that asked for a key, a lease or an environment got it, or was refused at once.'
        : `Nobody is waiting for anything in ${namespace} or below it.`}
    </EmptyState>
  );
}

const COLUMN_COUNT = 3;

/** Lines one below the other: what is waited for and who has it, then who waits, in order. */
function ContentionTable({
  lines,
  asOf,
  isLoading,
  onTouched,
  empty,
}: {
  readonly lines: readonly Line[];
  readonly asOf: string | undefined;
  readonly isLoading: boolean;
  readonly onTouched: (isTouched: boolean) => void;
  readonly empty: ReactNode;
}) {
  return (
    <div
      className={tableClasses['scroll']}
      tabIndex={0}
      role="region"
      aria-label="Who is waiting for whom"
      onPointerEnter={() => onTouched(true)}
      onPointerLeave={() => onTouched(false)}
    >
      <table
        className={`${tableClasses['table'] ?? ''} ${classes['table'] ?? ''}`}
        aria-busy={isLoading}
      >
        <thead>
          <tr>
            <th scope="col" className={classes['place']}>
              Place
            </th>
            <th scope="col">Waiter</th>
            <th scope="col" data-align="end">
              Waiting
            </th>
          </tr>
        </thead>
        {isLoading ? (
          <tbody>
            <LoadingRows columnCount={COLUMN_COUNT} />
          </tbody>
        ) : (
          lines.map((line) => <LineRows key={line.id} line={line} asOf={asOf ?? ''} />)
        )}
      </table>
      {!isLoading && lines.length === 0 ? empty : null}
    </div>
  );
}

function LineRows({ line, asOf }: { readonly line: Line; readonly asOf: string }) {
  return (
    <tbody>
      <tr className={classes['resource']}>
        <th scope="rowgroup" colSpan={COLUMN_COUNT}>
          <span className={classes['what']}>
            {line.face === 'lease' ? null : (
              <span className={classes['face']}>{FACE_WORDS[line.face][0]}</span>
            )}
            <Link href={routeOf(line.face, line)}>
              <VisibleText>{resourceText(line)}</VisibleText>
            </Link>
            <Holder line={line} asOf={asOf} />
            <span className={classes['count']}>
              {line.before === 0
                ? `${count(line.waiters.length)} waiting`
                : `${count(line.waiters.length)} waiting here, ${count(line.before)} before them`}
            </span>
          </span>
        </th>
      </tr>
      {line.waiters.map((waiter) => (
        <tr key={`${String(waiter.place)} ${waiter.waiter}`} data-row>
          <td className={classes['place']}>{waiter.place}</td>
          <td>
            <HolderLink face={line.face} name={waiter.waiter} />
          </td>
          <td data-align="end">
            <Waited since={waiter.since} asOf={asOf} />
          </td>
        </tr>
      ))}
    </tbody>
  );
}

/** To what somebody holds already. Who waits for a key gets it for a drone, and holds nothing by itself. */
function HolderLink({ face, name }: { readonly face: Face; readonly name: string }) {
  if (face === 'key') return <Mono>{name}</Mono>;
  const list = face === 'lease' ? routes.leases : routes.environments;
  return (
    <Link
      href={list({ q: fieldText('holder', name) })}
      title={`${face === 'lease' ? 'Leases' : 'Environments'} that ${name} holds`}
      className="mono"
    >
      <VisibleText>{name}</VisibleText>
    </Link>
  );
}

function Holder({ line, asOf }: { readonly line: Line; readonly asOf: string }) {
  if (line.holder === null) {
    return <span className={classes['nobody']}>held by nobody now</span>;
  }
  return (
    <span className={classes['group-holder']}>
      held by{' '}
      {line.face === 'key' ? (
        <Link href={routes.drone(line.holder, line.datacenter)} className="mono">
          {line.holder}
        </Link>
      ) : (
        <HolderLink face={line.face} name={line.holder} />
      )}
      {line.heldSince === null ? null : (
        <>
          {' '}
          for <Waited since={line.heldSince} asOf={asOf} />
        </>
      )}
    </span>
  );
}

/** How long something has lasted, updated every second; the exact start on hover and focus. */
function Waited({ since, asOf }: { readonly since: string; readonly asOf: string }) {
  const nowMs = useDatabaseNow() ?? Date.parse(asOf);
  return (
    <Tip label={<span className="mono">since {absolute(since)}</span>}>
      <time dateTime={since} tabIndex={0}>
        {duration(nowMs - Date.parse(since))}
      </time>
    </Tip>
  );
}

/** A resource with the callers that wait for it. */
interface Line {
  readonly id: string;
  readonly face: Face;
  readonly namespace: string;
  readonly name: string;
  readonly datacenter: string;
  /** Null when nobody holds it at this moment. */
  readonly holder: string | null;
  readonly heldSince: string | null;
  /** In the order of their places. */
  readonly waiters: readonly ContentionView[];
  /** How many waiters come before the first that this page shows. */
  readonly before: number;
}

/** The lines of a page, the one with the longest wait first. */
export function linesOf(items: readonly ContentionView[]): Line[] {
  const byId = new Map<string, ContentionView[]>();
  for (const item of items) {
    const id = [item.datacenter, item.face, item.namespace, item.name].join('\n');
    const others = byId.get(id);
    if (others === undefined) byId.set(id, [item]);
    else others.push(item);
  }
  return [...byId.entries()].flatMap(([id, waiters]) => {
    const [first] = waiters;
    if (first === undefined) return [];
    const { face, namespace, name, datacenter, holder, heldSince } = first;
    const before = first.place - 1;
    return [{ id, face, namespace, name, datacenter, holder, heldSince, waiters, before }];
  });
}
