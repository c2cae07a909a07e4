import { Button } from '@mantine/core';
import { type ReactNode, useState } from 'react';
import { type Face, FACES, type Resource, resourceText } from '@leasehold/keys-core';
import type { ContentionHolder, ContentionView } from '@leasehold/keys-core/leases';
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
import { type Answered, EmptyState, ErrorState, isWhole, UnreachableNotice } from '~/ui/states.tsx';
import { TableFooter } from '~/ui/table/data-table.tsx';
import { cursorOf, useHeldRows } from '~/ui/table/held-rows.ts';
import { LoadingRows } from '~/ui/table/table-rows.tsx';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
import { Tip } from '~/ui/tip.tsx';
import { FrozenMark } from './freezes.tsx';
import classes from './waits.module.css';
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

/** Who waits for whom, the longest wait first, and what those who make others wait are waiting for. */
export function WaitsTab() {
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
    nextCursor: cursorOf(read),
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
      <WaitsTable {...table} empty={<NobodyWaits namespace={namespace} read={read} />} />
      <TableFooter
        read={read}
        label="waiters"
        state={state}
        identity={identity}
        rowCount={read.data?.items.length ?? 0}
        nextCursor={held.nextCursor}
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

function NobodyWaits({
  namespace,
  read: { data },
}: {
  readonly namespace: string;
  readonly read: { readonly data: Answered | undefined };
}) {
  if (data !== undefined && !isWhole(data)) return null;
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
function WaitsTable({
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
          lines.map((line) => (
            <LineRows key={line.id} line={line} lines={lines} asOf={asOf ?? ''} />
          ))
        )}
      </table>
      {!isLoading && lines.length === 0 ? empty : null}
    </div>
  );
}

/** A line, among all that are shown. */
interface LineProps {
  readonly line: Line;
  readonly lines: readonly Line[];
  readonly asOf: string;
}

function LineRows({ line, lines, asOf }: LineProps) {
  return (
    <tbody>
      <tr className={classes['resource']}>
        <th scope="rowgroup" colSpan={COLUMN_COUNT}>
          <span className={classes['what']}>
            <LineLink line={line} />
            <Holders line={line} asOf={asOf} />
            <span className={classes['count']}>
              {line.before === 0
                ? `${count(line.waiters.length)} waiting`
                : `${count(line.waiters.length)} waiting here, ${count(line.before)} before them`}
            </span>
          </span>
          <Chain line={line} lines={lines} asOf={asOf} />
          {line.face === 'environment' && line.holders.length === 0 ? (
            <FrozenMark environment={line} />
          ) : null}
        </th>
      </tr>
      {line.waiters.map((waiter) => (
        <tr key={`${String(waiter.place)} ${waiter.waiter}`} data-row>
          <td className={classes['place']}>{waiter.place}</td>
          <td>
            <HolderLink face={line.face} name={waiter.waiter} />
            <Wish of={waiter} />
          </td>
          <td data-align="end">
            <Waited since={waiter.since} asOf={asOf} />
          </td>
        </tr>
      ))}
    </tbody>
  );
}

/** What is waited for, with a word before what is no lease. */
function LineLink({ line }: { readonly line: Resource & { readonly datacenter: string } }) {
  return (
    <span>
      {line.face === 'lease' ? null : (
        <span className={classes['face']}>{FACE_WORDS[line.face][0]} </span>
      )}
      <Link href={routeOf(line.face, line)}>
        <VisibleText>{resourceText(line)}</VisibleText>
      </Link>
    </span>
  );
}

const WISHES = { permit: 'a permit', shared: 'to share it', exclusive: 'it alone' } as const;

/** How a waiter wants it; '' where nobody can have it but alone. */
function modeText({ mode, holders }: ContentionView): string {
  if (mode !== null) return `wants ${WISHES[mode]}`;
  return holders.some((holder) => holder.mode === 'shared') ? `wants ${WISHES.exclusive}` : '';
}

/** How a waiter wants it, for which action, and with which others. */
function Wish({ of }: { readonly of: ContentionView }) {
  const { action, together } = of;
  const wants = [
    modeText(of),
    action === null ? '' : `for ${action}`,
    together === null ? '' : togetherText(together),
  ].filter((text) => text !== '');
  if (wants.length === 0) return null;
  return (
    <span className={classes['wish']}>
      <VisibleText>{wants.join(', ')}</VisibleText>
    </span>
  );
}

function togetherText({
  count: others,
  others: named,
}: NonNullable<ContentionView['together']>): string {
  const more = others - named.length;
  const names = named.map(resourceText).join(', ');
  return `only together with ${names}${more > 0 ? ` and ${count(more)} more` : ''}`;
}

/** Those whose end would help the line, if they wait themselves: for what, and who has that, as far as it is known. */
function Chain({ line, lines, asOf }: LineProps) {
  return chainsOf(line, lines).map((hops) => (
    <span key={hops[0]?.who} className={classes['chain']} role="note">
      {hops.map(({ who, wants, since, isCircle }, index) => (
        <span key={`${wants.namespace}/${wants.name}`}>
          {index === 0 ? '↳ ' : ', which is held by '}
          <Mono>{who}</Mono>
          {index === 0 ? ' waits itself for ' : ', who waits for '}
          <LineLink line={{ ...wants, datacenter: line.datacenter }} />
          {` for `}
          <Waited since={since} asOf={asOf} />
          {isCircle ? (
            <strong className={classes['circle']}> They wait for each other.</strong>
          ) : null}
        </span>
      ))}
    </span>
  ));
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

/** Who has it, for how long; of many the first ones, and how many there are. */
function Holders({ line, asOf }: { readonly line: Line; readonly asOf: string }) {
  const { holders, holderCount, face, datacenter, permits, totalUsed } = line;
  const limit = permits === null ? null : permitsText(holderCount, permits, totalUsed);
  if (holders.length === 0) {
    return (
      <span className={classes['nobody']}>
        held by nobody now{limit === null ? '' : `, ${limit}`}
      </span>
    );
  }
  const more = holderCount - holders.length;
  return (
    <span className={classes['group-holder']}>
      {holders[0]?.mode === 'shared' ? 'shared by ' : 'held by '}
      {holders.map(({ holder, since }, index) => (
        <span key={`${holder} ${since}`}>
          {index === 0 ? '' : ', '}
          {face === 'key' ? (
            <Link href={routes.drone(holder, datacenter)} className="mono">
              {holder}
            </Link>
          ) : (
            <HolderLink face={face} name={holder} />
          )}
          {' for '}
          <Waited since={since} asOf={asOf} />
        </span>
      ))}
      {more > 0 ? ` and ${count(more)} more` : ''}
      {limit === null ? '' : `, ${limit}`}
    </span>
  );
}

/** `2 of 3 permits`, and what all keys have together. */
function permitsText(
  held: number,
  { perKey, total }: NonNullable<ContentionView['permits']>,
  totalUsed: number | null,
): string {
  const ofKey = `${count(held)} of ${countText(perKey, 'permit')}`;
  if (total === null) return ofKey;
  const ofAll = totalUsed === null ? count(total) : `${count(totalUsed)} of ${count(total)}`;
  return `${ofKey}, ${ofAll} for all keys together`;
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
interface Line extends Pick<
  ContentionView,
  'face' | 'namespace' | 'name' | 'datacenter' | 'holders' | 'holderCount' | 'permits' | 'totalUsed'
> {
  readonly id: string;
  /** In the order of their places. */
  readonly waiters: readonly ContentionView[];
  /** How many waiters come before the first that this page shows. */
  readonly before: number;
}

/** The lines of a page, the one with the longest wait first. */
export function linesOf(items: readonly ContentionView[]): Line[] {
  const byId = new Map<string, ContentionView[]>();
  for (const item of items) {
    const id = lineId(item, item.datacenter);
    const others = byId.get(id);
    if (others === undefined) byId.set(id, [item]);
    else others.push(item);
  }
  return [...byId.entries()].flatMap(([id, waiters]) => {
    const [first] = waiters;
    if (first === undefined) return [];
    const { face, namespace, name, datacenter, holders, holderCount, permits, totalUsed } = first;
    const before = first.place - 1;
    const of = { id, face, namespace, name, datacenter };
    return [{ ...of, holders, holderCount, permits, totalUsed, waiters, before }];
  });
}

function lineId({ face, namespace, name }: Resource, datacenter: string): string {
  return [datacenter, face, namespace, name].join('\n');
}

/** One step from a line to the next: its holder waits for something itself. */
interface Hop {
  readonly who: string;
  readonly wants: Resource;
  readonly since: string;
  /** Whether this is what the chain began with, or has been at before. */
  readonly isCircle: boolean;
}

/** A chain of more than this many steps is cut. */
const HOPS_MAX = 8;

/**
 * For each holder of a line that waits itself: what it waits for, what the first holder of that waits for, and so on,
 * as far as the lines of this page tell.
 */
export function chainsOf(line: Line, lines: readonly Line[]): Hop[][] {
  const byId = new Map(lines.map((one) => [one.id, one]));
  return line.holders.filter(isWaiting).map((first) => {
    const seen = new Set([line.id]);
    const hops: Hop[] = [];
    let holder: ContentionHolder | undefined = first;
    while (holder !== undefined && isWaiting(holder) && hops.length < HOPS_MAX) {
      const { since, ...wants } = holder.waitsFor;
      const id = lineId(wants, line.datacenter);
      const isCircle = seen.has(id);
      hops.push({ who: holder.holder, wants, since, isCircle });
      seen.add(id);
      holder = isCircle ? undefined : byId.get(id)?.holders.find(isWaiting);
    }
    return hops;
  });
}

function isWaiting(
  holder: ContentionHolder,
): holder is ContentionHolder & { waitsFor: NonNullable<ContentionHolder['waitsFor']> } {
  return holder.waitsFor !== null;
}
