import type { LeaseWhy, OppositeOrders, MostWaitedPage } from '../controller-api.ts';
import { rowsText, type ListFormat } from '../options.ts';
import { scopeText } from '../scope.ts';
import { agoText, durationText, printable, printableOr, tableText, type Column } from './text.ts';

type HolderNow = LeaseWhy['holders'][number];
type WaiterNow = LeaseWhy['waiters'][number];
type Blocker = LeaseWhy['blockers'][number];
type MostWaited = MostWaitedPage['items'][number];

/** Why callers wait for one lease or environment; by name, who made them wait. */
export function whyText(why: LeaseWhy, format: ListFormat): string {
  if (format === 'name') return rowsText(why.blockers, BLOCKER_COLUMNS, format);
  const { holders, holderCount, waiters, waiterCount, waits, blockers, fromAt, asOf } = why;
  return [
    part(
      holderCount === 0 ? 'Nobody holds it.' : 'Held now',
      tableOf(holders, holderColumns(asOf)) + moreText(holderCount - holders.length),
    ),
    part(
      waiterCount === 0 ? 'Nobody waits.' : `${countText(waiterCount, 'waits', 'wait')} now`,
      tableOf(waiters, WAITER_COLUMNS) + moreText(waiterCount - waiters.length),
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

function moreText(more: number): string {
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

const WAITER_COLUMNS: readonly Column<WaiterNow>[] = [
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
