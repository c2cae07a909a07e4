/** Who made others wait, and which leases are taken in opposite orders. */
import { Skeleton, Text } from '@mantine/core';
import type { ReactNode } from 'react';
import { resourceText } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { absolute, count, countText, duration, fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, type ResourceRef, routeOf } from '~/lib/routes.ts';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { StaleScope } from '~/ui/stale.tsx';
import { ErrorState, Notice } from '~/ui/states.tsx';
import { Link, Mono, RelativeTime, VisibleText } from '~/ui/text.tsx';

type Waits = Outputs['leases']['mostWaited'];
type Why = Outputs['leases']['why'];
type Blocker = Waits['items'][number]['blockers'][number];
type Opposite = Waits['opposite'][number];
type OrderSide = Opposite['oneFirst'];
type Taken = Opposite['one'];

/** Waits make no events, and counting them costs some reads. */
const EVERY_MS = 15_000;

/** What was waited for most, by the time of all waits together: of all leases, environments and keys. */
export function ContentionPanel({ windowMinutes }: { readonly windowMinutes: number }) {
  const read = useLiveQuery(
    'leases',
    'mostWaited',
    { windowMinutes },
    { everyMs: EVERY_MS, isOnTimer: true },
  );
  const { data } = read;
  return (
    <Panel
      title="Contention"
      meta={data === undefined ? undefined : <Counted of={data} />}
      isFlush={(data?.items.length ?? 0) > 0}
    >
      {data === undefined ? (
        <Unread read={read} />
      ) : (
        <StaleScope read={read} everyMs={EVERY_MS}>
          {data.items.length === 0 ? (
            <Text size="sm" c="dimmed">
              Nobody waited.
            </Text>
          ) : (
            <MostWaited items={data.items} />
          )}
          <Opposites pairs={data.opposite} />
        </StaleScope>
      )}
    </Panel>
  );
}

type Read = Parameters<typeof ErrorState>[0]['read'] & { readonly isError: boolean };

function Unread({ read }: { readonly read: Read }) {
  return read.isError ? (
    <ErrorState read={read} what="the waits" />
  ) : (
    <Skeleton height={80} aria-busy="true" />
  );
}

/** From when on, if that is later than was asked for. */
function Counted({
  of: { fromAt, isComplete },
}: {
  readonly of: Pick<Waits, 'fromAt' | 'isComplete'>;
}) {
  if (isComplete) return null;
  return (
    <span className="small-print">Only since {absolute(fromAt)}: too much has happened before</span>
  );
}

const MOST_HEADS = [
  { text: 'Resource' },
  { text: 'Waited together', align: 'end' },
  { text: 'Longest', align: 'end' },
  { text: 'Waits', align: 'end' },
  { text: 'Got nothing', align: 'end' },
  { text: 'Mostly because of' },
] as const;

function MostWaited({ items }: { readonly items: Waits['items'] }) {
  return (
    <PlainTable label="What was waited for most" heads={MOST_HEADS}>
      {items.map((item) => {
        const [most] = item.blockers;
        return (
          <tr key={`${item.face} ${fullName(item)}`}>
            <td>
              <Name of={item} />
            </td>
            <td data-align="end">{duration(item.waitedMs)}</td>
            <td data-align="end">{duration(item.longestMs)}</td>
            <td data-align="end">{count(item.waits)}</td>
            <td data-align="end">{count(item.gaveUp)}</td>
            <td>{most === undefined ? '–' : <Who of={most} />}</td>
          </tr>
        );
      })}
    </PlainTable>
  );
}

function Who({ of: { holder, actor } }: { readonly of: Pick<Blocker, 'holder' | 'actor'> }) {
  return <Mono title={actor === null ? holder : `${holder}, for ${actor}`}>{holder}</Mono>;
}

function Name({ of }: { readonly of: Taken }) {
  return (
    <Link href={routeOf(of.face, of)} title={fullName(of)}>
      <VisibleText>{resourceText(of)}</VisibleText>
    </Link>
  );
}

/** A warning for each pair of leases that are taken in opposite orders; nothing without one. */
function Opposites({ pairs }: { readonly pairs: readonly Opposite[] }): ReactNode {
  return pairs.map(({ one, other, oneFirst, otherFirst }) => (
    <Notice key={`${fullName(one)} ${fullName(other)}`} tone="warn">
      <strong>
        <Name of={one} /> and <Name of={other} /> are taken in opposite orders
      </strong>
      : their holders can wait for each other forever.{' '}
      <Order held={one} taken={other} side={oneFirst} />{' '}
      <Order held={other} taken={one} side={otherFirst} /> A holder is known by its name and token:
      pieces of work that share both look like one, and such a pair says nothing.
    </Notice>
  ));
}

function Order({
  held,
  taken,
  side: { times, by, lastAt },
}: {
  readonly held: Taken;
  readonly taken: Taken;
  readonly side: OrderSide;
}) {
  return (
    <>
      <VisibleText>{by.map(({ holder }) => holder).join(', ')}</VisibleText> took{' '}
      <VisibleText>{resourceText(taken)}</VisibleText> while holding{' '}
      <VisibleText>{resourceText(held)}</VisibleText>: {countText(times, 'time')}, last{' '}
      <RelativeTime at={lastAt} />.
    </>
  );
}

const BLOCKER_HEADS = [
  { text: 'Holder' },
  { text: 'Caller' },
  { text: 'Others waited', align: 'end' },
  { text: 'Longest', align: 'end' },
  { text: 'Grants', align: 'end' },
] as const;

function waitedText({ count: waited, waitedMs, longestMs, gaveUp }: Why['waits']): string {
  const refused = gaveUp === 0 ? '' : `; ${count(gaveUp)} got nothing`;
  return `${countText(waited, 'caller')} waited ${duration(waitedMs)} together, the longest ${duration(longestMs)}${refused}`;
}

/** Why callers wait for one lease or environment: who made others wait in the last hour, and opposite orders. */
export function WhyPanel({
  face,
  resource: { namespace, name, datacenter },
}: {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
}) {
  const group = face === 'lease' ? 'leases' : 'environments';
  const input = { namespace, name, ...at(datacenter) };
  const read = useLiveQuery(group, 'why', input, { everyMs: EVERY_MS, isOnTimer: true });
  const { data } = read;
  if (data === undefined) return <Unread read={read} />;
  const { waits, blockers, opposite, fromAt, isComplete } = data;
  return (
    <StaleScope read={read} everyMs={EVERY_MS}>
      <Text size="sm">
        {waits.count === 0
          ? `Nobody waited since ${absolute(fromAt)}.`
          : `Since ${absolute(fromAt)}, ${waitedText(waits)}.`}
        {isComplete ? '' : ' What was before is left out: too much has happened.'}
      </Text>
      {blockers.length === 0 ? null : (
        <PlainTable label="Who made others wait" heads={BLOCKER_HEADS}>
          {blockers.map(({ holder, actor, waitedMs, longestMs, grants }) => (
            <tr key={`${holder} ${actor ?? ''}`}>
              <td>
                <Mono>{holder}</Mono>
              </td>
              <td>{actor === null ? '–' : <VisibleText>{actor}</VisibleText>}</td>
              <td data-align="end">{duration(waitedMs)}</td>
              <td data-align="end">{duration(longestMs)}</td>
              <td data-align="end">{count(grants)}</td>
            </tr>
          ))}
        </PlainTable>
      )}
      <Opposites pairs={opposite} />
    </StaleScope>
  );
}
