import type { Clock } from '@leasehold/core';
import { startUrlProxy, waitUntil } from '@leasehold/testing';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runForLeader } from './leader.ts';
import { joinService, startService, type Service } from './testing/service.ts';

/** Long enough that no busy leader loses its seat, unless a test wants it to. */
const TTL_MS = 9_000;

interface Controller {
  readonly address: string;
  /** The terms that it has led, the last one first. */
  readonly terms: { readonly signal: AbortSignal; readonly fencingToken: string }[];
  readonly isLeading: () => boolean;
  /** The address of the leader that it followed last. */
  readonly follows: () => string | undefined;
  readonly stepDown: () => Promise<void>;
}

interface ControllerOptions {
  readonly ttlMs?: number;
  readonly onLead?: () => void;
  /** Called with each answer that lets it lead, before it gets it. */
  readonly onAnswer?: ((loseAtMs: number, clock: Clock) => Promise<void>) | undefined;
  readonly report?: (error: unknown) => void;
}

/** The coordinator of a service, whose answers may be held back. */
function answering(
  { coordinator, core }: Service,
  onAnswer: ControllerOptions['onAnswer'],
): Service['coordinator'] {
  if (onAnswer === undefined) return coordinator;
  return {
    ...coordinator,
    async acquireOrRenew(seat) {
      const answer = await coordinator.acquireOrRenew(seat);
      if (answer.outcome !== 'held') await onAnswer(answer.deadlines.loseAtMs, core.clock);
      return answer;
    },
  };
}

function ignore(): void {
  // Most tests are about something else.
}

function startController(
  { databaseUrl }: Pick<Service, 'databaseUrl'>,
  address: string,
  options: ControllerOptions = {},
): Controller {
  const { ttlMs = TTL_MS, onLead = ignore, onAnswer, report = ignore } = options;
  const service = joinService(databaseUrl, address);
  const terms: Controller['terms'] = [];
  let follows: string | undefined;
  const running = new AbortController();
  const ended = runForLeader(
    {
      coordinator: answering(service, onAnswer),
      clock: service.core.clock,
      ttlMs,
      lead(signal, fencingToken) {
        terms.unshift({ signal, fencingToken });
        onLead();
      },
      follow: (leader) => (follows = leader),
      report,
    },
    running.signal,
  );
  onTestFinished(async () => {
    running.abort();
    await ended.catch(() => undefined);
  });
  return {
    address,
    terms,
    isLeading: () => terms[0]?.signal.aborted === false,
    follows: () => follows,
    async stepDown() {
      running.abort();
      await ended;
    },
  };
}

async function theLeader(controllers: readonly Controller[]): Promise<Controller> {
  return waitUntil(() => {
    const leader = controllers.find((controller) => controller.isLeading());
    const others = controllers.filter((controller) => controller !== leader);
    return others.every((other) => other.follows() === leader?.address) && leader;
  });
}

describe('controllers', () => {
  test('C9 one of three leads, and the others know its address', async () => {
    const database = await startService('runners/runner-liveness.sql');
    const controllers = ['10.0.0.1:80', '10.0.0.2:80', '10.0.0.3:80'].map((address) =>
      startController(database, address),
    );

    const leader = await theLeader(controllers);

    expect(controllers.filter((controller) => controller.isLeading())).toEqual([leader]);
    expect(controllers.map((controller) => controller.terms.length).sort()).toEqual([0, 0, 1]);
  });

  test('a leader that steps down is followed by another, with a larger token', async () => {
    const database = await startService('runners/runner-liveness.sql');
    const controllers = ['a', 'b'].map((address) => startController(database, address));
    const leader = await theLeader(controllers);
    const other = controllers.find((controller) => controller !== leader);

    await leader.stepDown();
    await waitUntil(() => other?.isLeading());

    expect(leader.isLeading()).toBe(false);
    const tokens = [leader, other].map((one) => BigInt(one?.terms[0]?.fencingToken ?? 0));
    expect(tokens[1]).toBeGreaterThan(tokens[0] ?? 0n);
  });

  test('I4 a leader that cannot reach the database has stopped leading before another begins', async () => {
    const database = await startService('runners/runner-liveness.sql');
    const { proxy, url } = await startUrlProxy(database.databaseUrl);
    onTestFinished(() => proxy.close());
    const ttlMs = 3_000;
    const cutOff = startController({ databaseUrl: url }, 'cut off', { ttlMs });
    await theLeader([cutOff]);
    let wasStillLeading: boolean | undefined;
    const next = startController(database, 'next', {
      onLead: () => (wasStillLeading ??= cutOff.isLeading()),
    });
    await waitUntil(() => next.follows() === 'cut off');

    // No connection is reset: whatever is sent is lost.
    proxy.drop();
    await waitUntil(() => next.isLeading());
    proxy.heal();

    expect(wasStillLeading).toBe(false);
  });

  test('I4 an answer that comes after its own deadline begins no term', async () => {
    const database = await startService('runners/runner-liveness.sql');
    const answers: { readonly loseAtMs: number; readonly clock: Clock }[] = [];
    const wereLate: boolean[] = [];
    const late = startController(database, 'late', {
      ttlMs: 3_000,
      async onAnswer(loseAtMs, clock) {
        answers.push({ loseAtMs, clock });
        if (answers.length > 1) return;
        // As if the process had been paused before it read the first one.
        await new Promise<void>((resolve) => clock.at(loseAtMs, resolve));
      },
      onLead() {
        const { loseAtMs = 0, clock } = answers.at(-1) ?? {};
        wereLate.push((clock?.nowMs() ?? 0) >= loseAtMs);
      },
    });

    await waitUntil(() => late.isLeading());

    expect(wereLate).toEqual([false]);
  });

  test('a failure that does not pass by itself is reported, and the controller leads once it is corrected', async () => {
    const database = await startService('runners/runner-liveness.sql');
    // As in a database of another version of Leasehold.
    await database.ourSql('alter table lease rename to gone');
    const reports: unknown[] = [];
    const controller = startController(database, 'a', { report: (error) => reports.push(error) });

    await waitUntil(() => reports.length > 1);
    await database.ourSql('alter table gone rename to lease');
    await waitUntil(() => controller.isLeading());

    expect(reports[0]).toMatchObject({ code: 'config.invalid' });
  });

  test('a leader whose seat was taken away follows, and may lead again later', async () => {
    const database = await startService('runners/runner-liveness.sql');
    const leader = startController(database, 'a', { ttlMs: 3_000 });
    await theLeader([leader]);
    const usurper = database.join('usurper').coordinator;
    const seat = {
      key: () => crypto.randomUUID(),
      scope: () => ({ namespace: ['controller'], key: 'leader' }),
      durationMs: () => 60_000,
    };
    // The leader may ask between the two statements and win its seat back: then it is taken away once more.
    await waitUntil(async () => {
      await database.ourSql(
        `update lease set end_reason = 'revoked', released_at = clock_timestamp()`,
      );
      return (await usurper.acquireOrRenew(seat)).outcome === 'granted';
    });

    await waitUntil(() => leader.follows() === 'usurper');
    const isStillLeading = leader.isLeading();
    await usurper.releaseOk(seat, undefined);
    await waitUntil(() => leader.isLeading());

    expect(isStillLeading).toBe(false);
  });
});
