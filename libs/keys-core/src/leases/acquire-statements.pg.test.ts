import { setImmediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { aCoordinator, aUseCase } from '../testing/coordinator-fixture.ts';
import { hearsHints, TRUSTING_WATCH } from '../testing/kernel-fixture.ts';
import { acquire, acquired, type Leases, openLeases } from '../testing/lease-fixture.ts';
import { passingTime } from '../testing/passing-time.ts';
import { watchStatements } from '../testing/sent-statements.ts';

/** A controller for which no moment ever comes: nothing is sent that waits for one. */
async function inStillTime(): Promise<Leases> {
  const { databaseUrl, clock: still } = await passingTime();
  const clock = { ...still, at: () => () => undefined };
  const one = await openLeases({ databaseUrl, clock, clockWatch: TRUSTING_WATCH });
  await one.store.witness.look();
  await hearsHints(one);
  return one;
}

/** The statements that are sent from a call until its caller waits in line and has looked once. */
async function statementsUntilItWaits(
  one: Leases,
  call: () => Promise<unknown>,
): Promise<readonly string[]> {
  const looks = vi.spyOn(one.leases, 'refusal');
  const sent = watchStatements();
  onTestFinished(() => {
    vi.restoreAllMocks();
  });
  const isInLine = (): boolean => sent.texts.some((text) => text.includes('as "ticketId", w.id'));
  const isLookedAt = (): boolean =>
    looks.mock.calls.some(
      ([request], index) =>
        request.isQueued === true && looks.mock.settledResults[index]?.type === 'fulfilled',
    );
  sent.within(call).catch(() => undefined);
  await waitUntil(() => isInLine() && isLookedAt(), { what: 'its first look in line' });
  // What its look leads to is sent in the next turn.
  for (let turns = 0; turns < 3; turns += 1) await setImmediate();
  return sent.texts;
}

describe('a contended acquire, before it waits', () => {
  test('sends four statements: a try, why it is refused, its place in line, and a look from there', async () => {
    const one = await inStillTime();
    await acquired(one);

    const sent = await statementsUntilItWaits(one, () =>
      acquire(one, { holder: 'next', waitMs: 60_000 }),
    );

    expect(sent).toHaveLength(4);
  });

  test('sends three in the process of a coordinator whose grants have hooks', async () => {
    const one = await inStillTime();
    const coordinator = aCoordinator(one);
    await acquired(one, { namespace: '', name: 'warm' });
    await coordinator.acquire(aUseCase('a'), 0);

    const next = aUseCase('a', { willInsert: () => undefined });
    const sent = await statementsUntilItWaits(one, () => coordinator.acquire(next, 60_000));

    expect(sent).toHaveLength(3);
  });
});
