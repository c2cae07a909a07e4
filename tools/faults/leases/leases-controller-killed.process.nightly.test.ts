import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { waitUntil, type TestProcess, type FaultProxy } from '@leasehold/testing';
import type { HolderSettings } from './stage/holder.ts';
import { holdsOf, overlapsOf } from './stage/holds.ts';
import { FaultStage, untilPassed, type Fact } from '../stage/stage.ts';
import type { TakerSettings } from './stage/taker.ts';
import { allWords } from './stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';

/** Far longer than a test takes: nothing here becomes free by expiry. */
const LONG_TTL_MS = 60_000;
/** From the moment at which another controller takes over until all is in order. */
const RECOVERY_MS_MAX = 10_000;

let lease: FaultStage;
beforeAll(async () => {
  lease = await FaultStage.open({ controllers: 4 });
});
afterAll(({}, file) => lease.close(file));

/** Ends a controller as `kill -9` does; the proxy in front of it sends everybody to the next one. */
async function failOver(fronts: readonly FaultProxy[], from: number, to: number): Promise<void> {
  await lease.controller(from).kill();
  for (const front of fronts) {
    front.setTarget({ host: '127.0.0.1', port: lease.controller(to).port });
    front.heal();
  }
}

describe.concurrent('a controller that is killed', () => {
  test('F3 F18 I7 between commit and reply, under load: each attempt is granted at most once, no grant leaks', async () => {
    const namespace = 'load';
    const fronts = await Promise.all(Array.from({ length: 4 }, () => lease.front(0)));
    const takers = await Promise.all(
      fronts.map(({ url }, index) => {
        const name = `taker-${String(index)}`;
        const of = { url, name, namespace, token: lease.token, ttlMs: LONG_TTL_MS, width: 16 };
        return lease.start('taker', of satisfies TakerSettings, name);
      }),
    );
    await waitUntil(() => takers.every((taker) => allWords([taker], 'released').length > 100), {
      what: 'load',
    });

    // Two of the four get no reply to what is committed for them; then no client gets one.
    for (const front of fronts.slice(0, 2)) front.drop('down');
    const cutAtMs = machineMs();
    const givenUp = () => allWords(takers, 'not_held').filter((word) => word.atMs > cutAtMs);
    const unheardCount = async (): Promise<number> => {
      const heard = new Set(allWords(takers, 'held', 'not_held').map(({ key }) => key));
      const keys = [...(await lease.held(namespace)).keys()];
      return keys.filter((key) => /^taker-[01]-/u.test(key) && !heard.has(key)).length;
    };
    await waitUntil(async () => givenUp().length >= 4 && (await unheardCount()) >= 2, {
      what: 'grants that no caller got',
    });
    await failOver(fronts, 0, 3);
    const killedAtMs = machineMs();
    const hasGoneOn = (taker: TestProcess): boolean =>
      allWords([taker], 'released').some((word) => word.atMs > killedAtMs);
    await waitUntil(() => takers.every(hasGoneOn), {
      what: 'releases at another controller',
      timeoutMs: RECOVERY_MS_MAX,
    });
    await untilPassed(500);
    for (const taker of takers) taker.signal('SIGTERM');
    await waitUntil(() => allWords(takers, 'idle').length === takers.length);

    await waitUntil(async () => (await lease.held(namespace)).size === 0, {
      timeoutMs: RECOVERY_MS_MAX,
    }).catch(() => undefined);
    const leaked = [...(await lease.held(namespace)).keys()];
    const facts = await lease.facts(namespace);
    const held = allWords(takers, 'held');
    const unheard = unheardOf(facts, held, { sinceMs: cutAtMs, untilMs: killedAtMs });
    console.log(
      `controller killed: ${String(held.length)} grants handed out, ${String(unheard.replayed)} of them committed before the kill and answered by another controller, ${String(unheard.undone)} given up and undone`,
    );
    expect(
      leaked.map((key) => storyOf(key, { facts, takers, killedAtMs })),
      'grants that nobody knows of',
    ).toEqual([]);
    expect(unheard.replayed, 'answers that were lost and came again').toBeGreaterThan(0);
    expect(unheard.undone, 'grants that nobody wanted any more').toBeGreaterThan(0);
    expect(doubled(facts), 'attempts that were granted twice').toEqual([]);
    expect(facts.filter(({ kind }) => kind === 'expired' || kind === 'taken_over')).toEqual([]);
    expect(unknownHolds(facts, held), 'leases that were handed out and not granted').toEqual([]);
    expect(notGivenBack(takers), 'releases that did not end the lease').toEqual([]);
    // Any caller can acquire the keys at once.
    expect(await firstRefusal(namespace, facts)).toBeUndefined();
  });

  test('F3 I1 C35 in the middle of a line of sixty at three controllers: each is granted once, never two at a time', async () => {
    const namespace = 'line';
    const fronts = await Promise.all([1, 2, 3].map((index) => lease.front(index)));
    const waiters = await Promise.all(
      Array.from({ length: 6 }, (_, index) => {
        const tasks = Array.from({ length: 10 }, (_place, place) => {
          const url = fronts[(index + place) % fronts.length]?.url ?? '';
          return { url, key: 'one', ttlMs: 10_000, waitMs: 60_000, holdMs: 40 };
        });
        const of = { token: lease.token, namespace, tasks } satisfies HolderSettings;
        return lease.start('holder', of, `waiter-${String(index)}`);
      }),
    );
    const heldCount = (): number => allWords(waiters, 'held').length;
    await waitUntil(() => heldCount() >= 20, { what: 'a third of the line', timeoutMs: 30_000 });

    const before = heldCount();
    const connectedCount = fronts[0]?.connectionsCount ?? 0;
    await failOver(fronts.slice(0, 1), 1, 2);
    const atMs = machineMs();
    await waitUntil(() => allWords(waiters, 'released').length === 60, {
      what: 'the end of the line',
      timeoutMs: 30_000,
    });

    console.log(
      `controller killed with ${String(60 - before)} in line, ${String(connectedCount)} of them connected to it: all were granted ${String(Math.round(machineMs() - atMs))} ms later`,
    );
    expect(connectedCount, 'who was in line at the controller that was killed').toBeGreaterThan(0);
    const holds = holdsOf(waiters);
    expect(holds).toHaveLength(60);
    expect(overlapsOf(holds), 'I1').toEqual([]);
    const grants = (await lease.facts(namespace)).filter(isGrant);
    expect(grants.map(({ token }) => token)).toEqual(holds.map(({ token }) => token));
    expect(notGivenBack(waiters)).toEqual([]);
    expect(allWords(waiters, 'not_held', 'lost')).toEqual([]);
  });
});

describe('a connection that is made only after the callers have given up', () => {
  test('F18 I7 makes no grant that no caller waits for any more', async () => {
    const namespace = 'late';
    const front = await lease.front(3);
    front.drop();
    const of = { url: front.url, name: 'early', namespace, token: lease.token } as const;
    const settings = { ...of, ttlMs: LONG_TTL_MS, width: 16 } satisfies TakerSettings;
    const taker = await lease.start('taker', settings);
    const givenUp = () => allWords([taker], 'not_held');
    await waitUntil(() => givenUp().length >= 4, { what: 'callers that give up' });

    front.heal();
    await waitUntil(() => allWords([taker], 'released').length >= 16, { what: 'a connection' });
    taker.signal('SIGTERM');
    await waitUntil(() => allWords([taker], 'idle').length === 1);

    const keys = new Set(givenUp().map(({ key }) => key));
    const leaked = (): Promise<string[]> =>
      lease.held(namespace).then((held) => [...held.keys()].filter((key) => keys.has(key)));
    await waitUntil(async () => (await leaked()).length === 0, {
      timeoutMs: RECOVERY_MS_MAX,
    }).catch(() => undefined);
    expect(await leaked(), 'given up, and granted').toEqual([]);
  });
});

function isGrant({ kind }: Fact): boolean {
  return kind === 'granted' || kind === 'taken_over';
}

/** What became of an attempt, in milliseconds from the kill. */
function storyOf(
  key: string,
  of: {
    readonly facts: readonly Fact[];
    readonly takers: readonly TestProcess[];
    readonly killedAtMs: number;
  },
): string {
  const words = allWords(of.takers, 'held', 'released', 'not_held', 'lost');
  const story = [...of.facts, ...words]
    .filter((one) => one.key === key)
    .sort((a, b) => a.atMs - b.atMs)
    .map(({ kind, atMs }) => `${kind} at ${String(Math.round(atMs - of.killedAtMs))}`);
  return `${key}: ${story.join(', ')}`;
}

/** The keys, one for each attempt, that were granted more than once. */
function doubled(facts: readonly Fact[]): string[] {
  const keys = facts.filter(isGrant).map(({ key }) => key);
  return keys.filter((key, index) => keys.indexOf(key) !== index);
}

/** What was granted in a span of time and received later, or never. */
function unheardOf(
  facts: readonly Fact[],
  held: readonly { readonly token: string; readonly key: string; readonly atMs: number }[],
  { sinceMs, untilMs }: { readonly sinceMs: number; readonly untilMs: number },
): { readonly replayed: number; readonly undone: number } {
  const heldAtMs = new Map(held.map(({ key, atMs }) => [key, atMs]));
  const granted = facts.filter(
    (fact) => isGrant(fact) && fact.atMs > sinceMs && fact.atMs < untilMs,
  );
  return {
    replayed: granted.filter(({ key }) => (heldAtMs.get(key) ?? 0) > untilMs).length,
    undone: granted.filter(({ key }) => !heldAtMs.has(key)).length,
  };
}

function unknownHolds(
  facts: readonly Fact[],
  held: readonly { readonly token: string; readonly key: string }[],
): string[] {
  const granted = new Set(facts.filter(isGrant).map(({ key, token }) => `${key} ${token}`));
  return held.map(({ key, token }) => `${key} ${token}`).filter((one) => !granted.has(one));
}

/** A release that was sent again because its reply was lost may say that it was done before. */
function notGivenBack(processes: readonly TestProcess[]): string[] {
  return allWords(processes, 'released')
    .filter(({ report }) => report !== 'released' && report !== 'already_released')
    .map(({ key, report }) => `${key}: ${report}`);
}

/** Whether each of the last keys, those of the fault included, can be acquired at once. */
async function firstRefusal(
  namespace: string,
  facts: readonly Fact[],
): Promise<string | undefined> {
  const keys = [...new Set(facts.map(({ key }) => key))].slice(-1_000);
  const { results } = await lease.api('admin', lease.controller(3).url).leases.acquireMany.mutate({
    localTimeMs: machineMs(),
    items: keys.map((key) => ({
      namespace: [namespace],
      key,
      ttlMs: 1_000,
      holder: 'the judge',
    })),
  });
  const index = results.findIndex(({ outcome }) => outcome !== 'granted');
  return index === -1 ? undefined : `${keys[index] ?? ''}: ${JSON.stringify(results[index])}`;
}
