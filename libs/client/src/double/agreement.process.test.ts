import { expect, onTestFinished, test } from 'vitest';
import type { Lease, LeaseDefinition, Leasehold, LeaseholdCallError } from '../index.ts';
import { useController } from '../testing/controller-fixture.ts';
import { leaseholdErrorOf } from '../transport/errors.ts';
import { createTestLeasehold } from './index.ts';

const controller = useController();

/** What a scenario needs of a Leasehold, real or not. */
interface World {
  client(holder: string, transport?: 'ws' | 'http'): Leasehold;
  revoke(lease: Lease, mode: 'graceful' | 'force'): Promise<void>;
}

function realWorld(): World {
  return {
    client: (holder, transport = 'ws') => controller.aClient({ holder, transport }),
    async revoke({ leaseId }, mode) {
      await controller.operator.api.leases.revoke.mutate({ leaseId, mode, reason: 'wrong week' });
    },
  };
}

function worldInMemory(): World {
  const leasehold = createTestLeasehold();
  onTestFinished(() => leasehold.close());
  return {
    client: (holder) => leasehold.client({ holder }),
    revoke: (lease, mode) => leasehold.revoke(lease, { mode, reason: 'wrong week' }),
  };
}

const aborted = ({ signal }: { signal: AbortSignal }): Promise<unknown> =>
  new Promise((resolve) => {
    const told = (): void => resolve(signal.reason);
    if (signal.aborted) told();
    else signal.addEventListener('abort', told);
  });

const codeOf = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => 'no error',
    (error: unknown) => leaseholdErrorOf(error)?.code ?? (error as { code?: string }).code,
  );

/** Who refuses a caller that does not wait, once so many wait. */
async function refusedBehind(jobs: LeaseDefinition, waiters: number): Promise<string | undefined> {
  for (;;) {
    const attempt = await jobs.tryAcquire('weekly');
    if (attempt.outcome === 'granted') return undefined;
    if (attempt.waiters === waiters) return attempt.by;
  }
}

/** Each tells what a service sees, without ids and times. */
const SCENARIOS: Record<string, (world: World) => Promise<unknown>> = {
  async 'two callers of one lease'(world) {
    const [one, other] = [world.client('one'), world.client('other')];
    const jobs = one.defineLease(['jobs']);
    const lease = await jobs.acquire('nightly', { comment: 'until noon' });
    const held = await other.defineLease(['jobs']).tryAcquire('nightly');
    const elsewhere = await other.defineLease(['jobs']).tryAcquire('daily');
    const releases = [await lease.release(), await lease.release()];
    const next = await other.defineLease(['jobs']).acquire('nightly');
    return {
      held: held.outcome === 'held' && [held.by, held.comment, held.action, held.waiters],
      elsewhere: elsewhere.outcome,
      releases,
      isNewer: BigInt(next.fencingToken) > BigInt(lease.fencingToken),
      scope: [next.namespace, next.key, next.isHeld],
    };
  },
  async 'a caller that waits, and one that does not'(world) {
    const jobsOf = (holder: string) => world.client(holder).defineLease(['jobs']);
    const [jobs, others, thirds] = [jobsOf('one'), jobsOf('other'), jobsOf('third')];
    const lease = await jobs.acquire('weekly');
    const waiting = others.acquire('weekly', { waitMs: 20_000 });
    const refused = await refusedBehind(thirds, 1);
    await lease.release();
    const next = await waiting;
    const after = await refusedBehind(thirds, 0);
    return { refused, after, released: await next.release() };
  },
  async 'a lease that is revoked by force'(world) {
    const jobs = world.client('one').defineLease(['jobs']);
    const lease = await jobs.acquire('monthly');
    await world.revoke(lease, 'force');
    const { reason, note } = (await aborted(lease)) as { reason: string; note: string };
    return { reason, note, isHeld: lease.isHeld, released: await lease.release() };
  },
  async 'a lease that is revoked gracefully'(world) {
    const jobs = world.client('one').defineLease(['jobs']);
    const lease = await jobs.acquire('yearly');
    await world.revoke(lease, 'graceful');
    const { note } = (await aborted({ signal: lease.revoking })) as { note: string };
    return { note, isHeld: lease.isHeld, released: await lease.release() };
  },
  async 'work whose lease is lost, and work that throws anything'(world) {
    const ended: unknown[] = [];
    for (const transport of ['ws', 'http'] as const) {
      const jobs = world.client('one', transport).defineLease(['work']);
      const odd = Object.create(null) as Error;
      ended.push(
        // A call of work that is lost may be cancelled.
        await codeOf(
          jobs.run('lost', (lease) => world.revoke(lease, 'force').catch(() => undefined)),
        ),
        await codeOf(jobs.run('odd', () => Promise.reject(odd))),
        await codeOf(jobs.run('odd', () => Promise.reject(new Error('a\0b')))),
        // It is free again.
        await jobs.acquire('odd', { waitMs: 0 }).then((lease) => lease.release()),
      );
    }
    return ended;
  },
  async 'a client that is closed while one of its calls waits'(world) {
    const ends: unknown[] = [];
    for (const transport of ['ws', 'http'] as const) {
      const [one, third] = [world.client('one'), world.client('third')];
      const other = world.client('other', transport);
      const jobs = other.defineLease(['jobs']);
      const lease = await one.defineLease(['jobs']).acquire('weekly');
      const own = await jobs.acquire(`own-${transport}`);
      const waiting = codeOf(jobs.acquire('weekly', { waitMs: 60_000 }));
      await refusedBehind(third.defineLease(['jobs']), 1);
      await Promise.all([other.close(), other.close()]);
      ends.push(
        await waiting,
        own.isHeld,
        await codeOf(jobs.acquire('free')),
        await codeOf(jobs.tryAcquire('free')),
        await codeOf(jobs.run('free', () => 'done')),
        await codeOf(other.environments.tryAcquire('free', { action: 'deploy' })),
        await codeOf(other.withEnvironmentLease('free', { action: 'a', record: () => 'done' })),
        await lease.release(),
        // Nobody is in line any more, and nothing of what was refused is held.
        await third.defineLease(['jobs']).run('weekly', () => 'done', { waitMs: 0 }),
        await third.defineLease(['jobs']).run('free', () => 'done', { waitMs: 0 }),
      );
    }
    return ends;
  },
  async 'metadata that changes while a lease is held'(world) {
    const jobs = world.client('one').defineLease(['jobs']);
    const lease = await jobs.acquire('updated', { metadata: { port: 1 } });
    const updates = [
      await codeOf(lease.update({ metadata: { port: 2 } })),
      await codeOf(lease.update({ metadata: { huge: 'x'.repeat(17_000) } })),
    ];
    await world.revoke(lease, 'force');
    updates.push(await codeOf(lease.update({ metadata: null })));
    const next = await jobs.acquire('updated');
    await next.release();
    return [...updates, await codeOf(next.update({ metadata: null }))];
  },
  async 'an environment'(world) {
    const [one, other] = [world.client('one'), world.client('other')];
    const first = await one.environments.tryAcquire('staging', { action: 'deploy' });
    const held = await other.environments.tryAcquire('staging', { action: 'migrate' });
    const vetoed = await codeOf(
      other.withEnvironmentLease('test', {
        action: 'migrate',
        veto: () => 'freeze',
        record: () => 'done',
      }),
    );
    const recorded = await other.withEnvironmentLease('test', {
      action: 'migrate',
      record: ({ isHeld }) => isHeld,
    });
    return {
      first: first.outcome,
      held: held.outcome === 'held' && [held.by, held.action],
      vetoed,
      recorded,
    };
  },
  async 'an environment that its holder wants to share'(world) {
    const refusals: unknown[] = [];
    for (const transport of ['ws', 'http'] as const) {
      const client = world.client('one', transport);
      await using attempt = await client.environments.tryAcquire('shared', { action: 'deploy' });
      if (attempt.outcome !== 'granted') throw new Error('it is free');
      const { lease } = attempt;
      const refusal = await lease.downgrade().catch((error: unknown) => error);
      const { code, message, details } = refusal as LeaseholdCallError;
      refusals.push({ code, message, details, isHeld: lease.isHeld });
    }
    return refusals;
  },
  async 'what is refused'(world) {
    const one = world.client('one');
    const jobs = one.defineLease(['jobs']);
    const lease = await jobs.acquire('hourly');
    return {
      ttl: await codeOf(one.defineLease(['jobs']).acquire('x', { ttlMs: 10 })),
      held: await codeOf(jobs.acquire('hourly', { waitMs: 0 })),
      wait: await codeOf(jobs.acquire('hourly', { waitMs: 1e9 })),
      key: await codeOf((async () => jobs.acquire(''))()),
      itself: await codeOf(lease.run(() => jobs.acquire('hourly'))),
    };
  },
};

test.each(Object.keys(SCENARIOS))(
  '%s: a service sees the same of a test Leasehold and of a controller',
  async (name) => {
    const scenario = SCENARIOS[name];
    if (scenario === undefined) throw new Error(`there is no scenario ${name}`);

    const [real, inMemory] = [await scenario(realWorld()), await scenario(worldInMemory())];

    expect(inMemory).toEqual(real);
  },
);
