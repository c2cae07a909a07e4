/** The queue, and how soon what is free is granted. */
import type { Cancel, FaultSeen, History, TicketSeen, Violation } from '../history.ts';
import { isOf, isShareable, TOGETHER_NAMESPACE } from '../world/workers/settings.ts';
import { isStepped } from './clock-steps.ts';
import { MAPPING_MS } from './exclusion.ts';
import { grantsOf, groupedBy } from './grants.ts';
import { starvedMs } from './recovery.ts';

/** I10: what is free is granted within a second, and I9: a dead waiter delays others by half of one. */
const IDLE_MS_MAX = 1_500;

/** From what a grant's statement sees to the time in its event, on a busy machine. */
const STATEMENT_MS_MAX = 300;

/** I9: nobody is granted a lease over an earlier ticket that was valid all the time. */
export function checkOrder({ events, tickets, steps }: History): Violation[] {
  const byResource = groupedBy(tickets, ({ resource }) => resource);
  const byTicket = groupedBy(tickets, ({ ticketId }) => ticketId);
  return grantsOf(events).flatMap(({ granted }): Violation[] => {
    // Callers who wait for a key get the same backend, in whatever order they came.
    if (!granted.resource.startsWith('lease ')) return [];
    // Those who share it let each other pass, and those who want permits of other keys.
    if (isShareable(granted.resource)) return [];
    const place = placeAt(byTicket.get(granted.leaseId), granted.atMs);
    const seen = byResource.get(granted.resource) ?? [];
    const overtaken = seen.find((ticket) => {
      const isEarlier = ticket.id < place && ticket.seenByMs < granted.atMs - STATEMENT_MS_MAX;
      if (!isEarlier || ticket.validUntilMs < granted.atMs + MAPPING_MS) return false;
      if (isStepped(steps, ticket.seenAtMs, granted.atMs)) return false;
      return isStillThere(seen, ticket, granted.atMs);
    });
    if (overtaken === undefined) return [];
    const text = `${granted.resource}: ${granted.token} was granted over ticket ${String(overtaken.id)}`;
    return [{ invariant: 'I9', atMs: granted.atMs, text }];
  });
}

/** A replay that comes late may join the line once more, at its end, before its ticket is removed. */
function placeAt(own: readonly TicketSeen[] | undefined, atMs: number): number {
  const place = own?.findLast(({ seenAtMs }) => seenAtMs < atMs) ?? own?.[0];
  return place?.id ?? Infinity;
}

/** A ticket that was removed meanwhile may have been given up. */
function isStillThere(seen: readonly TicketSeen[], { id }: TicketSeen, atMs: number): boolean {
  return seen.some((later) => later.id === id && later.seenAtMs > atMs + MAPPING_MS);
}

/** I9: a request that was given up, and answered, is granted nothing afterwards. */
export function checkGivenUp({ operations, events }: History): Violation[] {
  const cancels = operations.filter((one): one is Cancel => one.kind === 'cancel');
  const answered = new Map(
    cancels
      .filter(({ answer }) => answer.outcome === 'answered')
      .map(({ holder, repliedAtMs }) => [holder, repliedAtMs]),
  );
  return grantsOf(events).flatMap(({ granted, ends }): Violation[] => {
    const atMs = answered.get(granted.holder) ?? Infinity;
    const isLate = granted.atMs > atMs + MAPPING_MS;
    const isKept = granted.atMs <= atMs && !ends.some((end) => end.atMs <= atMs + MAPPING_MS);
    if (!isLate && !(isKept && atMs < Infinity)) return [];
    const text = `${granted.resource}: ${granted.token} is of ${granted.holder}, who had given up`;
    return [{ invariant: 'I9', atMs: granted.atMs, text }];
  });
}

/** I10: nothing is free for long while somebody waits for it and nothing is broken. */
export function checkIdle({ idle, faults, starved }: History): Violation[] {
  return idle.flatMap(({ resource, sinceMs, untilMs }): Violation[] => {
    if (!isForOne(resource)) return [];
    const fromMs = Math.max(sinceMs, lastDisturbance(faults, sinceMs, untilMs));
    const calmMs = untilMs - fromMs - starvedMs(starved, fromMs, untilMs);
    if (calmMs <= IDLE_MS_MAX) return [];
    const text = `${resource} was free for ${calmMs.toFixed(0)} ms while somebody waited`;
    return [{ invariant: 'I10', atMs: untilMs, text }];
  });
}

/** A lease that one holds, and that its waiters want alone; an environment may be frozen. */
function isForOne(resource: string): boolean {
  if (resource.startsWith('environment ')) return false;
  return !isShareable(resource) && !isOf(resource, TOGETHER_NAMESPACE);
}

function lastDisturbance(faults: readonly FaultSeen[], fromMs: number, untilMs: number): number {
  const ends = faults
    .filter((fault) => fault.reaches.includes('leases'))
    .filter((fault) => fault.fromMs < untilMs && fault.recoveredAtMs > fromMs)
    .map((fault) => fault.recoveredAtMs);
  return Math.max(-Infinity, ...ends);
}
