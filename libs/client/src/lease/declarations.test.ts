import { describe, expect, test } from 'vitest';
import { settled } from '../double/index.ts';
import { setUpLeases } from '../testing/lease-setup.ts';
import {
  DatacenterUnreachableError,
  LeaseholdCallError,
  OutcomeUnknownError,
  UnreachableError,
} from '../transport/errors.ts';
import { createAcquireAll } from './acquire-all.ts';
import { createLeaseDefinition, type LeaseDefinition } from './lease-definition.ts';
import { Declarations } from './lease-faces.ts';

const DAY_MS = 24 * 60 * 60 * 1_000;
const ANSWER_MS = 10_000;

/** A controller that answers declarations as a test wants, and a client of it. */
function setUpDeclarations(options: { unreachable?: UnreachableError } = {}) {
  const set = setUpLeases();
  const { clock, background, taker } = set;
  const sent: (string | undefined)[] = [];
  let answer = (): Promise<{ declared: number }> => Promise.resolve({ declared: 1 });
  const declarations = new Declarations({
    api: {
      leases: {
        declare: {
          mutate({ datacenter }) {
            sent.push(datacenter);
            return answer();
          },
        },
      },
    },
    machine: { clock, uuid: () => 'id', random: () => 0.5 },
    background,
    answerMs: ANSWER_MS,
    reachability: {
      isHopeless: () => false,
      explain: (call) =>
        call().catch((error: unknown) => {
          const isUnknown = error instanceof OutcomeUnknownError;
          throw (isUnknown ? options.unreachable : undefined) ?? error;
        }),
    },
  });
  const definition: LeaseDefinition = createLeaseDefinition(
    taker,
    'me',
    { namespace: ['user', 'update'], permits: 2, waitMs: 0 },
    // The leases of the wire have one holder at a time.
    (definitions, intent, ask) =>
      declarations.whenDeclared(definitions, intent, (declared) =>
        ask({ ...declared, mode: undefined }),
      ),
  );
  return {
    ...set,
    declarations,
    definition,
    sent,
    answerWith: (next: () => Promise<{ declared: number }>): void => {
      answer = next;
    },
    failWith: (error: Error): void => {
      answer = () => Promise.reject(error);
    },
  };
}

type Setup = ReturnType<typeof setUpDeclarations>;

/** The database has forgotten the number: until that is declared again, each acquire is refused after so long. */
function forgetPermits({ clock, wire, sent }: Setup, refusedAfterMs: number): void {
  const knownCount = sent.length;
  const acquire = wire.acquire.bind(wire);
  wire.acquire = (...call) => {
    if (sent.length > knownCount) return acquire(...call);
    clock.jump(refusedAfterMs);
    return Promise.reject(new LeaseholdCallError('lease.permits_not_declared'));
  };
}

/** For how long each acquire may wait in line, in the order in which they ask. */
function waitsOf({ taker }: Setup): readonly number[] {
  const waits: number[] = [];
  const acquire = taker.acquire.bind(taker);
  taker.acquire = (intent) => {
    waits.push(intent.waitMs);
    return acquire(intent);
  };
  return waits;
}

describe('several definitions', () => {
  const named = (name: string): LeaseDefinition =>
    ({ namespace: [name], ttlMs: 30_000, permits: undefined }) as unknown as LeaseDefinition;

  /** Declares them to a controller that refuses some. @returns the names that it was told of, and took. */
  async function declared(names: readonly string[], refuses: (name: string) => boolean) {
    const { background, clock } = setUpLeases();
    const known = new Set<string>();
    let callCount = 0;
    const declarations = new Declarations({
      api: {
        leases: {
          declare: {
            mutate({ declarations: told }) {
              callCount += 1;
              const of = told.map(({ namespace }) => [namespace].flat().join('.'));
              if (of.length > 1_000 || of.some(refuses)) {
                return Promise.reject(new LeaseholdCallError('request.invalid'));
              }
              for (const name of of) known.add(name);
              return Promise.resolve({ declared: of.length });
            },
          },
        },
      },
      machine: { clock, uuid: () => 'id', random: () => 0.5 },
      background,
      answerMs: ANSWER_MS,
      reachability: { isHopeless: () => false, explain: (call) => call() },
    });
    for (const name of names) declarations.add(named(name));
    await settled();
    declarations.send();
    await settled();
    return { known, calls: () => callCount, declarations };
  }

  test('are all known but the one that is refused, which is not sent again', async () => {
    const { known, calls, declarations } = await declared(
      ['a', 'bad', 'c'],
      (name) => name === 'bad',
    );
    expect([...known]).toEqual(['a', 'c']);
    const before = calls();

    declarations.send();
    await settled();

    expect(calls()).toBe(before);
  });

  test('are declared in several calls where one may not have as many', async () => {
    const names = Array.from({ length: 2_001 }, (_, nth) => `n${String(nth)}`);

    expect((await declared(names, () => false)).known.size).toBe(names.length);
  });
});

describe('a number of permits', () => {
  test('is declared once, and again before it is used a day later', async () => {
    const { clock, definition, sent } = setUpDeclarations();
    const sentAfter = async (ms: number): Promise<number> => {
      clock.jump(ms);
      await (await definition.acquire('k')).release();
      return sent.length;
    };

    expect([await sentAfter(0), await sentAfter(DAY_MS / 2)]).toEqual([1, 1]);
    expect([await sentAfter(DAY_MS / 2), await sentAfter(1)]).toEqual([2, 2]);
  });

  test('is declared again while the time of its acquire lasts, also where that is not to wait', async () => {
    const { clock, definition, sent, answerWith, failWith } = setUpDeclarations();
    failWith(new LeaseholdCallError('controller.stopping'));
    const acquired = definition.acquire('k');
    const tried = definition.tryAcquire('other');
    await clock.advance(ANSWER_MS - 2_000);
    expect(sent.length).toBeGreaterThan(2);
    answerWith(() => Promise.resolve({ declared: 1 }));
    await clock.advance(2_000);

    expect((await acquired).isHeld).toBe(true);
    expect((await tried).outcome).toBe('granted');
  });

  test('that cannot be declared in time fails the acquire as a controller without an answer does', async () => {
    const unreachable = new UnreachableError();
    const { clock, definition, answerWith } = setUpDeclarations({ unreachable });
    answerWith(() => new Promise(() => undefined));
    const refused = expect(definition.acquire('k', { waitMs: 20_000 })).rejects.toBe(unreachable);

    await clock.advance(20_000 + ANSWER_MS + 10_000);

    await refused;
  });

  test('that another service has declared otherwise fails the acquire at once', async () => {
    const { definition, sent, failWith } = setUpDeclarations();
    failWith(new LeaseholdCallError('lease.permits_differ'));

    const refused = definition.acquire('k', { waitMs: 60_000 });

    await expect(refused).rejects.toMatchObject({ code: 'lease.permits_differ' });
    expect(sent).toHaveLength(1);
  });

  test('counts into the time in line', async () => {
    const set = setUpDeclarations();
    const { clock, declarations, definition, answerWith, failWith } = set;
    const waits = waitsOf(set);
    failWith(new OutcomeUnknownError());
    const first = definition.acquire('k', { waitMs: 30_000 });
    await clock.advance(10_000);
    answerWith(() => Promise.resolve({ declared: 1 }));
    await clock.advance(5_000);
    await (await first).release();
    declarations.sendAll();
    failWith(new OutcomeUnknownError());
    declarations.sendAll();
    const second = definition.acquire('k', { waitMs: 3_000 });
    await clock.advance(5_000);
    answerWith(() => Promise.resolve({ declared: 1 }));
    await clock.advance(5_000);
    await second;

    expect(waits[0]).toBeGreaterThan(15_000);
    expect(waits[0]).toBeLessThan(20_000);
    // One that may wait never becomes another request.
    expect(waits[1]).toBe(1);
  });

  test('that the database has forgotten is declared again, once for all that are refused, and asked for again', async () => {
    const set = setUpDeclarations();
    const { definition, sent } = set;
    const there = { datacenter: 'dc2' };
    await (await definition.acquire('k', there)).release();
    forgetPermits(set, 1);

    const leases = await Promise.all(['a', 'b', 'c'].map((key) => definition.acquire(key, there)));

    expect(leases.map(({ isHeld }) => isHeld)).toEqual([true, true, true]);
    expect(sent).toEqual(['dc2', 'dc2']);
  });

  test('that was forgotten is asked for again with what is left of the time in line', async () => {
    const set = setUpDeclarations();
    await (await set.definition.acquire('k')).release();
    forgetPermits(set, 4_000);
    const waits = waitsOf(set);

    await set.definition.acquire('k', { waitMs: 10_000 });

    expect(waits).toEqual([10_000, 6_000]);
  });

  test('that is not known after it was declared again fails the acquire', async () => {
    const { definition, sent, wire } = setUpDeclarations();
    let askedCount = 0;
    wire.acquire = () => {
      askedCount += 1;
      return Promise.reject(new LeaseholdCallError('lease.permits_not_declared'));
    };

    const refused = definition.tryAcquire('k');

    await expect(refused).rejects.toMatchObject({ code: 'lease.permits_not_declared' });
    expect([askedCount, sent.length]).toEqual([2, 2]);
  });

  test('is waited for no longer than the signal of the acquire lets it', async () => {
    const { definition, answerWith } = setUpDeclarations();
    answerWith(() => new Promise(() => undefined));
    const giveUp = new AbortController();
    const refused = definition.acquire('k', { waitMs: 60_000, signal: giveUp.signal });
    await settled();
    giveUp.abort(new Error('enough'));

    await expect(refused).rejects.toThrow('enough');
  });

  test('is declared in the datacenter of the acquire, in each once', async () => {
    const { definition, sent } = setUpDeclarations();
    for (const datacenter of ['dc2', 'dc2', undefined, 'dc3']) {
      await (await definition.acquire('k', { datacenter })).release();
    }

    expect(sent).toEqual(['dc2', undefined, 'dc3']);
  });

  test('is asked for until the time in line is over while the datacenter cannot be reached', async () => {
    const { clock, definition, sent, failWith } = setUpDeclarations();
    failWith(new DatacenterUnreachableError());
    const waiting = expect(
      definition.acquire('k', { datacenter: 'dc2', waitMs: 60_000 }),
    ).rejects.toBeInstanceOf(DatacenterUnreachableError);
    await expect(definition.acquire('k', { datacenter: 'dc2' })).rejects.toBeInstanceOf(
      DatacenterUnreachableError,
    );
    await clock.advance(50_000);
    const before = sent.length;
    await clock.advance(15_000);

    await waiting;
    expect(before).toBeGreaterThan(20);
  });

  test('is known before several leases are acquired together', async () => {
    const { declarations, definition, taker, wire, answerWith } = setUpDeclarations();
    let isDeclared = false;
    answerWith(async () => {
      await settled();
      isDeclared = true;
      return { declared: 1 };
    });
    declarations.add(definition);
    const together = Object.assign(wire, {
      acquireAll: () => Promise.reject(new Error(isDeclared ? 'declared' : 'not declared')),
    });
    const acquireAll = createAcquireAll(taker, together, 'me', (scopes, intent, ask) =>
      declarations.whenDeclared(declarations.withPermitsOf(scopes), intent, ask),
    );

    const refused = acquireAll([
      { namespace: ['other'], key: 'k' },
      { namespace: ['user', 'update'], key: 'k' },
    ]);

    await expect(refused).rejects.toThrow('declared');
    await expect(refused).rejects.not.toThrow('not declared');
  });
});
