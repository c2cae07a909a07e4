import type { HoldOffView } from '@leasehold/api/contract';
import type { ControllerApi } from '@leasehold/client';
import { HOLD_OFF_CAUSES, momentOf } from '@leasehold/keys-core';
import { type Command, InvalidArgumentError } from 'commander';
import type {
  EnvironmentQueue,
  EventView,
  FailingCallback,
  LeaseView,
  LeaseWaiterView,
  LeaseWhy,
  MostWaitedPage,
  OppositeOrders,
  PoolView,
  WaitView,
} from '../controller-api.ts';
import { type ListFormat, rowsText } from '../options.ts';
import { scopeText } from '../scope.ts';
import {
  agoText,
  type Column,
  detailsText,
  durationText,
  placed,
  printable,
  printableOr,
  tableText,
} from './text.ts';

/** What is left of a grant; a dash for a key or a lease that nobody holds. */
export function remainingText(grant: Pick<LeaseView, 'phase' | 'remainingMs'>): string {
  return isHeld(grant) ? durationText(grant.remainingMs) : '-';
}

/** Whether somebody holds a key or a lease. */
export function isHeld({ phase }: Pick<LeaseView, 'phase'>): boolean {
  return phase === 'held' || phase === 'expiring';
}

const COLUMNS: readonly Column<LeaseView>[] = [
  { head: 'phase', text: (lease) => lease.phase },
  { head: 'remaining', text: remainingText, align: 'right' },
  // The last holder of a free lease is of no use to somebody who looks for the present one.
  { head: 'holder', text: (lease) => (lease.phase === 'free' ? '-' : printableOr(lease.holder)) },
  {
    head: 'action',
    text: (lease) => (lease.phase === 'free' ? '' : printableOr(lease.action, '')),
  },
  { head: 'token', text: (lease) => lease.fencingToken },
  { head: 'granted', text: (lease) => agoText(lease.grantedAt, lease.asOf) },
  {
    head: 'waiters',
    text: (lease) => (lease.waiters === 0 ? '' : String(lease.waiters)),
    align: 'right',
  },
  {
    head: 'comment',
    text: (lease) => (lease.phase === 'free' ? '' : printableOr(lease.comment, '')),
  },
  // Of one that several hold at once, which has a row for each.
  { head: 'mode', text: ({ mode }) => mode ?? '', isWide: true },
  { head: 'expires', text: (lease) => (isHeld(lease) ? lease.expiresAt : '-'), isWide: true },
  { head: 'lease id', text: (lease) => lease.leaseId, isWide: true },
];

/** The columns of a list of leases or environments. `frozen`: until when and why one is frozen, if it is. */
export function leaseColumns(
  noun: 'lease' | 'environment',
  datacenter: string | undefined,
  frozen: (lease: LeaseView) => string,
): readonly Column<LeaseView>[] {
  const columns = [{ head: noun, text: scopeText }, ...COLUMNS, { head: 'frozen', text: frozen }];
  return placed(columns, datacenter);
}

/** Everything about one lease or environment. A grant that has ended is shown as ended. */
export function leaseDetails(
  noun: 'lease' | 'environment',
  lease: LeaseView,
  frozen: string,
): string {
  return detailsText([
    [noun, scopeText(lease)],
    ['phase', lease.phase],
    ...(frozen === '' ? [] : [['frozen', frozen] as const]),
    ['remaining', remainingText(lease)],
    [isHeld(lease) ? 'holder' : 'last holder', printableOr(lease.holder)],
    ...(lease.action === null ? [] : [['action', printable(lease.action)] as const]),
    ['comment', printableOr(lease.comment)],
    ['metadata', lease.metadata == null ? '-' : printable(JSON.stringify(lease.metadata))],
    ['fencing token', lease.fencingToken],
    ['lease id', lease.leaseId],
    ['granted', `${lease.grantedAt}, ${agoText(lease.grantedAt, lease.asOf)}`],
    ['renewed', `${lease.renewedAt}, ${agoText(lease.renewedAt, lease.asOf)}`],
    ['expires', isHeld(lease) ? lease.expiresAt : '-'],
    ['time to live', durationText(lease.ttlMs)],
    ['renewal', lease.renewable ? 'allowed' : 'blocked'],
    ['waiters', String(lease.waiters)],
    ['datacenter', lease.datacenter],
  ]);
}

type PoolHolderView = PoolView['holders'][number];

const POOL_HOLDER_COLUMNS: readonly Column<PoolHolderView>[] = [
  { head: 'holder', text: ({ holder }) => printableOr(holder) },
  { head: 'mode', text: ({ mode }) => mode },
  { head: 'since', text: ({ since }) => since },
  { head: 'remaining', text: ({ remainingMs }) => durationText(remainingMs), align: 'right' },
  { head: 'token', text: ({ fencingToken }) => fencingToken },
  { head: 'lease id', text: ({ leaseId }) => leaseId },
];

/** A lease that several may hold at once: how much of it is held, and who holds it. */
export function poolDetails(lease: LeaseView, pool: PoolView): string {
  const { used, total, holders } = pool;
  const details = detailsText([
    ['lease', scopeText(lease)],
    ['phase', lease.phase],
    ['held', poolUseText(pool)],
    ...(total === null ? [] : [['of all keys', usedText(total.used, total.permits)] as const]),
    ['waiters', String(lease.waiters)],
    ['datacenter', lease.datacenter],
  ]);
  if (holders.length === 0) return details;
  const more = used - holders.length;
  const rest = more > 0 ? `\nand ${String(more)} more` : '';
  return `${details}\n\n${tableText(holders, POOL_HOLDER_COLUMNS)}${rest}`;
}

/** `2/3 permits`, `2 shared`, `1 alone`. */
export function poolUseText({
  kind,
  used,
  permits,
  holders,
}: Pick<PoolView, 'kind' | 'used' | 'permits' | 'holders'>): string {
  if (kind === 'permit') return usedText(used, permits);
  const isAlone = holders.some(({ mode }) => mode === 'exclusive');
  return isAlone ? '1 alone' : `${String(used)} shared`;
}

function usedText(used: number, permits: number | null): string {
  return `${String(used)}/${permits === null ? '-' : String(permits)} permits`;
}

/** Who waits in line, first in line first. */
export const WAITER_COLUMNS: readonly Column<LeaseWaiterView>[] = [
  { head: 'waiter', text: (waiter) => printable(waiter.waiter) },
  { head: 'waits for', text: (waiter) => durationText(waiter.waitedMs), align: 'right' },
  { head: 'since', text: (waiter) => waiter.since },
];

/** Who waits for whom. */
export function waitsColumns(datacenter: string | undefined): readonly Column<WaitView>[] {
  return placed<WaitView>(
    [
      { head: 'waits for', text: scopeText },
      // A lease needs no word.
      { head: 'face', text: ({ face }) => (face === 'lease' ? '' : face) },
      { head: 'place', text: ({ place }) => String(place), align: 'right' },
      { head: 'waiter', text: ({ waiter }) => printable(waiter) },
      { head: 'since', text: ({ since }) => since, isWide: true },
      { head: 'for', text: ({ waitedMs }) => durationText(waitedMs), align: 'right' },
      { head: 'wants', text: wishText },
      { head: 'held by', text: holdersText },
      { head: 'held for', text: heldForText, align: 'right' },
      { head: 'who waits for', text: nextText },
    ],
    datacenter,
  );
}

/** How a waiter wants it, for which action, and with which others. */
function wishText({ mode, action, together }: WaitView): string {
  const others =
    together === null
      ? ''
      : `with ${together.others.map(scopeText).join(', ')}${moreText(together.count - together.others.length)}`;
  return [mode ?? '', printableOr(action, ''), others].filter((text) => text !== '').join(' ');
}

function holdersText({ holders, holderCount, permits, totalUsed }: WaitView): string {
  const names = holders.map(({ holder }) => printableOr(holder)).join(', ');
  const held = `${names === '' ? '-' : names}${moreText(holderCount - holders.length)}`;
  if (permits === null) return held;
  const ofAll = permits.total === null ? '' : `; ${totalText(totalUsed, permits.total)}`;
  return `${held} (${usedText(holderCount, permits.perKey)}${ofAll})`;
}

/** What is used is unknown where nothing is limited. */
function totalText(used: number | null, permits: number): string {
  return `${used === null ? '-' : String(used)}/${String(permits)} of all keys`;
}

/** Of the holder whose grant expires first. */
function heldForText({ holders: [first], since, waitedMs }: WaitView): string {
  if (first === undefined) return '';
  return durationText(Date.parse(since) + waitedMs - Date.parse(first.since));
}

function nextText({ holders }: WaitView): string {
  const next = holders.find(({ waitsFor }) => waitsFor !== null)?.waitsFor;
  if (next === undefined || next === null) return '';
  return next.face === 'lease' ? scopeText(next) : `${next.face} ${scopeText(next)}`;
}

function moreText(count: number): string {
  return count > 0 ? ` and ${String(count)} more` : '';
}

/** Who waits for an environment and who was superseded, after its details; '' if nobody is. */
export function queueText({ waiting, superseded }: EnvironmentQueue): string {
  const lines = [
    ...waiting.map(
      ({ place, waiter, action, comment, since, isPrior }) =>
        `  ${String(place)}. ${workText(waiter, action, comment)}, since ${since}${isPrior ? ', by its role' : ''}`,
    ),
    ...(superseded.length === 0 ? [] : ['superseded']),
    ...superseded.map(
      ({ waiter, action, comment, by, at }) =>
        `  ${workText(waiter, action, comment)}, by ${printable(by)} at ${at}`,
    ),
  ];
  if (lines.length === 0) return '';
  return `\n${[...(waiting.length === 0 ? [] : ['waiting']), ...lines].join('\n')}`;
}

function workText(waiter: string, action: string, comment: string | null): string {
  const what = comment === null ? action : `${action} ${comment}`;
  return `${printable(waiter)} (${printable(what)})`;
}

/** Callbacks of expired leases that fail, as they were at `asOf`. */
export function failingCallbackColumns(
  asOf: string,
  datacenter: string | undefined,
): readonly Column<FailingCallback>[] {
  return placed<FailingCallback>(
    [
      { head: 'lease', text: scopeText },
      { head: 'service', text: ({ service }) => printableOr(service) },
      { head: 'tries', text: ({ tries }) => String(tries), align: 'right' },
      {
        head: 'next try',
        text: ({ nextTryAt }) => (nextTryAt <= asOf ? 'now' : agoText(nextTryAt, asOf)),
      },
      { head: 'given up', text: ({ droppedAt }) => agoText(droppedAt, asOf) },
      { head: 'last error', text: ({ lastError }) => printableOr(lastError) },
    ],
    datacenter,
  );
}

/** Who got a grant, and what for, as the event of its beginning tells. */
export function holderIn({ detail }: Pick<EventView, 'detail'>): {
  readonly holder: string;
  readonly comment: string;
} {
  const { holder, comment } = (detail ?? {}) as Readonly<Record<string, unknown>>;
  const textOf = (value: unknown): string => (typeof value === 'string' ? printable(value) : '');
  return { holder: textOf(holder), comment: textOf(comment) };
}

/**
 * What happened, one event per line. Events after the beginning of a grant do not repeat its holder and its
 * comment: they are taken from that beginning, if it is on the same page, and of the `newest` grant from that.
 */
export function historyColumns(
  events: readonly EventView[],
  newest?:
    (Pick<LeaseView, 'leaseId' | 'holder' | 'comment'> & Partial<Pick<LeaseView, 'pool'>>) | null,
): readonly Column<EventView>[] {
  const holders = new Map(
    events
      .map((event) => [event.leaseId, holderIn(event)] as const)
      .filter(([, { holder }]) => holder !== ''),
  );
  for (const { leaseId, holder } of newest?.pool?.holders ?? []) {
    if (!holders.has(leaseId)) holders.set(leaseId, { holder: printable(holder), comment: '' });
  }
  if (newest != null) {
    const { leaseId, holder, comment } = newest;
    holders.set(leaseId, { holder: printable(holder), comment: printableOr(comment, '') });
  }
  return [
    { head: 'at', text: (event) => event.at },
    { head: 'event', text: (event) => event.kind },
    { head: 'holder', text: ({ leaseId }) => holders.get(leaseId)?.holder ?? '' },
    { head: 'comment', text: ({ leaseId }) => holders.get(leaseId)?.comment ?? '' },
    ...EVENT_COLUMNS,
  ];
}

const EVENT_COLUMNS: readonly Column<EventView>[] = [
  { head: 'token', text: (event) => event.fencingToken },
  { head: 'by', text: (event) => printable(event.actor) },
  { head: 'reason', text: (event) => (event.reason === null ? '' : printable(event.reason)) },
  { head: 'lease id', text: (event) => event.leaseId },
];

type Moment = Awaited<ReturnType<ControllerApi['keys']['at']['query']>>;
type Grant = NonNullable<Moment['grant']>;

/** Of a command that can show a past moment. */
export interface MomentOptions {
  /** ISO-8601. */
  readonly at?: string;
}

/** Adds `--at`. */
export function withMoment(command: Command): Command {
  return command.option(
    '--at <instant>',
    'who held it then, by the database clock: 2026-11-25T03:12:00Z, or 03:12 for today in UTC',
    parseMoment,
  );
}

/** @throws {InvalidArgumentError} for what is no moment. */
function parseMoment(text: string): string {
  const moment = momentOf(text, new Date().toISOString().slice(0, 10));
  if (moment !== null) return moment;
  throw new InvalidArgumentError(
    'It must be an instant such as 2026-11-25T03:12:00Z, or a time of today in UTC such as 03:12.',
  );
}

/** Who held it, and what is not known. */
export function momentText(noun: string, name: string, moment: Moment): string {
  const { at, phase, grant, sharing, oldestAt } = moment;
  if (phase === 'unknown') {
    return `What happened to ${noun} ${name} at ${at} is not kept. The oldest moment that is kept is ${oldestAt ?? '-'}.`;
  }
  const isHeld = phase !== 'free';
  const head: [string, string][] = [
    [noun, name],
    ['at', at],
    ['phase', phase],
  ];
  if (sharing !== null && sharing.holderCount > 0) return severalText(head, sharing);
  const others = sharing?.isComplete === false ? [['note', NOT_ALL_SEEN] as [string, string]] : [];
  if (grant === null) return detailsText([...head, ...others]);
  return detailsText([
    ...head,
    ...others,
    [isHeld ? 'holder' : 'last holder', printableOr(grant.holder, 'not kept')],
    ['fencing token', grant.fencingToken],
    ['lease id', grant.leaseId],
    ['since', grant.since ?? 'not kept'],
    ['until', untilText(grant)],
    ...(grant.end === null
      ? []
      : [['ended', actText(grant.end.kind, grant.end)] as [string, string]]),
    ...(grant.blocked === null
      ? []
      : [['renewal blocked', actText(grant.blocked.at, grant.blocked)] as [string, string]]),
    ['datacenter', moment.datacenter],
  ]);
}

const NOT_ALL_SEEN =
  'Others may have held it too: only the grants around that moment were looked at.';

const MOMENT_HOLDER_COLUMNS: readonly Column<Grant>[] = [
  { head: 'holder', text: ({ holder }) => printableOr(holder, 'not kept') },
  { head: 'mode', text: ({ mode }) => mode ?? '' },
  { head: 'token', text: ({ fencingToken }) => fencingToken },
  { head: 'since', text: ({ since }) => since ?? 'not kept' },
  { head: 'until', text: untilText },
  {
    head: 'what happened',
    text: ({ end, blocked }) =>
      [
        ...(blocked === null ? [] : [actText('renewal blocked', blocked)]),
        ...(end === null ? [] : [actText(end.kind, end)]),
      ].join('; '),
  },
  { head: 'lease id', text: ({ leaseId }) => leaseId },
];

/** All who held it then. */
function severalText(
  head: readonly [string, string][],
  { holderCount, holders, isComplete }: NonNullable<Moment['sharing']>,
): string {
  const details = detailsText([
    ...head,
    ['holders', String(holderCount)],
    ...(isComplete ? [] : [['note', NOT_ALL_SEEN] as [string, string]]),
  ]);
  const more = holderCount - holders.length;
  const rest = more > 0 ? `\nand ${String(more)} more` : '';
  return `${details}\n\n${tableText(holders, MOMENT_HOLDER_COLUMNS)}${rest}`;
}

function untilText({ until, end }: Grant): string {
  if (until === null) return '-';
  return end?.kind === 'expired' ? `${until}, or some time before` : until;
}

function actText(
  what: string,
  { actor, reason }: { actor: string; reason: string | null },
): string {
  const why = reason === null ? '' : `: ${printable(reason)}`;
  return `${what} by ${printable(actor)}${why}`;
}

export function holdOffText({ since, remainingMs, until, cause }: HoldOffView): string {
  const begun = since === null ? '' : ` since ${since},`;
  const why = cause === null ? '' : `: ${HOLD_OFF_CAUSES[cause]}`;
  return `New grants are held off${begun} for ${durationText(remainingMs)} more, until ${until}. The database was restored or failed over${why}.`;
}

/** What can go wrong when a hold-off is ended, and until when. */
export function endRiskText({ until }: HoldOffView): string {
  return `The database has lost grants, and their holders may still act on them until ${until}. If you end the hold-off, such a key or lease can be granted again at once: then two holders, or two backends, act at the same time. Only stores that check fencing tokens notice it. End it only if every drone and every service that holds leases was restarted, or is off.`;
}

type HolderNow = LeaseWhy['holders'][number];
type WaiterNow = LeaseWhy['waiters'][number];
type Blocker = LeaseWhy['blockers'][number];
type MostWaited = MostWaitedPage['items'][number];

/** Why callers wait for one lease or environment; by name, who made them wait. */
export function whyText(why: LeaseWhy, format: ListFormat): string {
  if (format === 'name') return rowsText(why.blockers, BLOCKER_COLUMNS, format);
  const { holders, holderCount, total, waiters, waiterCount, waits, blockers, fromAt, asOf } = why;
  return [
    part(
      holderCount === 0 ? 'Nobody holds it.' : 'Held now',
      tableOf(holders, holderColumns(asOf)) + moreLineText(holderCount - holders.length),
    ),
    ...(total == null ? [] : [`Permits: ${totalText(total.used, total.permits)}.`]),
    part(
      waiterCount === 0 ? 'Nobody waits.' : `${countText(waiterCount, 'waits', 'wait')} now`,
      tableOf(waiters, WHY_COLUMNS) + moreLineText(waiterCount - waiters.length),
    ),
    waits.count === 0
      ? `Nobody waited since ${fromAt}.${cutText(why)}`
      : part(
          `Since ${fromAt}, ${countText(waits.count, 'caller', 'callers')} waited ${durationText(waits.waitedMs)} together, the longest ${durationText(waits.longestMs)}${gaveUpText(waits.gaveUp)}.${cutText(why)}`,
          blockers.length === 0 ? '' : `made them wait\n${tableOf(blockers, BLOCKER_COLUMNS)}`,
        ),
    oppositeText(why),
  ].join('\n\n');
}

/** What was waited for. */
export function waitsText(view: MostWaitedPage, format: ListFormat): string {
  if (format === 'name') return rowsText(view.items, MOST_COLUMNS, format);
  const { items, fromAt } = view;
  const head = items.length === 0 ? 'Nobody waited' : 'Waited for';
  return [
    part(`${head} since ${fromAt}.${cutText(view)}`, tableOf(items, MOST_COLUMNS)),
    oppositeText(view),
  ].join('\n\n');
}

function part(head: string, body: string): string {
  return body === '' ? head : `${head}\n${body}`;
}

function tableOf<Row>(rows: readonly Row[], columns: readonly Column<Row>[]): string {
  return rows.length === 0 ? '' : tableText(rows, columns);
}

function moreLineText(more: number): string {
  return more > 0 ? `\nand ${String(more)} more` : '';
}

function countText(count: number, one: string, many: string): string {
  return `${String(count)} ${count === 1 ? one : many}`;
}

function gaveUpText(gaveUp: number): string {
  return gaveUp === 0 ? '' : `; ${String(gaveUp)} got nothing`;
}

function cutText({ isComplete }: Pick<MostWaitedPage, 'isComplete'>): string {
  return isComplete ? '' : ' What was before is left out: too much has happened.';
}

function holderColumns(asOf: string): readonly Column<HolderNow>[] {
  return [
    { head: 'holder', text: ({ holder }) => printableOr(holder) },
    { head: 'by', text: ({ actor }) => printableOr(actor) },
    { head: 'mode', text: ({ mode }) => mode ?? '' },
    { head: 'since', text: ({ since }) => agoText(since, asOf) },
    { head: 'remaining', text: ({ remainingMs }) => durationText(remainingMs), align: 'right' },
    { head: 'lease id', text: ({ leaseId }) => leaseId },
  ];
}

const WHY_COLUMNS: readonly Column<WaiterNow>[] = [
  { head: 'place', text: ({ place }) => String(place), align: 'right' },
  { head: 'waiter', text: ({ waiter }) => printable(waiter) },
  { head: 'waits for', text: ({ waitedMs }) => durationText(waitedMs), align: 'right' },
];

const BLOCKER_COLUMNS: readonly Column<Blocker>[] = [
  { head: 'holder', text: ({ holder }) => printableOr(holder) },
  { head: 'by', text: ({ actor }) => printableOr(actor) },
  { head: 'waited', text: ({ waitedMs }) => durationText(waitedMs), align: 'right' },
  { head: 'longest', text: ({ longestMs }) => durationText(longestMs), align: 'right' },
  { head: 'grants', text: ({ grants }) => String(grants), align: 'right' },
];

const MOST_COLUMNS: readonly Column<MostWaited>[] = [
  { head: 'scope', text: scopeText },
  { head: 'face', text: ({ face }) => face },
  { head: 'waited', text: ({ waitedMs }) => durationText(waitedMs), align: 'right' },
  { head: 'longest', text: ({ longestMs }) => durationText(longestMs), align: 'right' },
  { head: 'waits', text: ({ waits }) => String(waits), align: 'right' },
  {
    head: 'got nothing',
    text: ({ gaveUp }) => (gaveUp === 0 ? '' : String(gaveUp)),
    align: 'right',
  },
  { head: 'now', text: ({ waiting }) => (waiting === 0 ? '' : String(waiting)), align: 'right' },
  {
    head: 'most because of',
    text: ({ blockers: [first] }) =>
      first === undefined ? '' : `${printableOr(first.holder)} (${durationText(first.waitedMs)})`,
  },
];

/** What the warning is based on. */
const ONE_NAME =
  'A holder is known by its name and token: pieces of work that share both look like one, and such a pair says nothing.';

function oppositeText({
  opposite,
  oppositeFromAt,
}: Pick<MostWaitedPage, 'opposite' | 'oppositeFromAt'>): string {
  return opposite.length === 0
    ? `No leases were taken in opposite orders since ${oppositeFromAt}.`
    : part(
        `Taken in opposite orders since ${oppositeFromAt}: their holders can wait for each other forever.`,
        [...opposite.map(pairText), ONE_NAME].join('\n'),
      );
}

function pairText({ one, other, oneFirst, otherFirst }: OppositeOrders): string {
  return [orderText(one, other, oneFirst), orderText(other, one, otherFirst)].join('\n');
}

function orderText(
  held: OppositeOrders['one'],
  taken: OppositeOrders['one'],
  { times, by, lastAt }: OppositeOrders['oneFirst'],
): string {
  const who = by.map(({ holder }) => printableOr(holder)).join(', ');
  const often = countText(times, 'time', 'times');
  return `  ${scopeText(taken)} while holding ${scopeText(held)}: ${often}, by ${who}, last at ${lastAt}`;
}
