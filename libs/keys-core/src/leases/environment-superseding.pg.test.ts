/** Who has lost a grant of an environment, and asks again, never comes after a newer request that has superseded it. */
import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { takeTurnsInLine } from '../grants/sql/environment-line.ts';
import { removeOldLeaseRows } from '../grants/sql/retention.ts';
import type { Actor } from '../kernel/access.ts';
import type { Caller } from '../kernel/face-types.ts';
import { SILENT_OBSERVER } from '../postgres/kernel-store.ts';
import { aGate, openSession } from '../testing/coordinator-fixture.ts';
import { BY, eventsOf, MACHINE_CLOCK, UNAUDITED } from '../testing/kernel-fixture.ts';
import {
  acquire,
  acquired,
  ALIVE,
  codeOf,
  inLine,
  type Leases,
  lineOf,
  openLeases,
  released,
  SERVICE,
} from '../testing/lease-fixture.ts';
import { createSlowDatabase } from '../testing/shifted-clock.ts';
import type { AcquireInput, CallerLife } from './lease-types.ts';

const OPERATOR: Caller = {
  principal: 'token-o',
  actor: 'olga',
  role: 'operator',
  namespaces: null,
};
const DEPLOY = { namespace: 'team', name: 'prod', action: 'deploy', waitMs: 60_000 };

type Change = Partial<AcquireInput>;
type Transaction = Parameters<Parameters<Leases['store']['general']['$transaction']>[0]>[0];

/** Waits for `prod` behind another holder, is granted it, confirms too late, and gives up: its key. */
async function lost(at: Leases, change: Change = {}, caller = SERVICE): Promise<string> {
  const held = await acquired(at, { ...DEPLOY, holder: 'before' });
  const idempotencyKey = randomUUID();
  const wait = { ...DEPLOY, ...change, confirms: true, idempotencyKey };
  const { answer } = await inLine(at, 'old', wait, ALIVE, caller);
  await released(at, held);
  expect(await answer).toMatchObject({ outcome: 'granted' });
  await at.service.cancel({ idempotencyKey }, caller);
  return idempotencyKey;
}

/** A newer deployment, from beginning to end. */
async function newer(at: Leases, change: Change = {}): Promise<void> {
  const asked = {
    ...DEPLOY,
    holder: 'new',
    comment: '2',
    supersede: 'waiting',
    ...change,
  } as const;
  await released(at, await acquired(at, asked));
}

/** Asks by another request, as the client does that has lost the one with this key. */
const again = (at: Leases, lostKey: string, change: Change = {}, caller = SERVICE) =>
  acquire(at, { ...DEPLOY, holder: 'old', again: lostKey, ...change }, { caller });

describe('a request by a caller that has lost its grant', () => {
  test('is refused if a newer one has superseded it meanwhile, also when that has ended', async () => {
    const at = await openLeases({}, 'environment');
    const lostKey = await lost(at);
    await newer(at);

    await expect(again(at, lostKey)).rejects.toMatchObject({
      code: 'environment.superseded',
      retryable: false,
      details: { by: 'new', byComment: '2', since: expect.stringMatching(/Z$/u) as string },
    });
    expect(await lineOf(at, 'prod')).toEqual([]);
    const events = (await eventsOf(at, 'prod')).map((event) => event.split(' ')[0]);
    expect(events.slice(-3)).toEqual(['granted', 'released', 'superseded']);
  });

  test('gets the same refusal whenever it is repeated', async () => {
    const at = await openLeases({}, 'environment');
    const lostKey = await lost(at);
    await newer(at);
    const idempotencyKey = randomUUID();
    await codeOf(again(at, lostKey, { idempotencyKey }));
    await newer(at, { holder: 'newest' });

    await expect(again(at, lostKey, { idempotencyKey })).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'new' },
    });
    const events = await eventsOf(at, 'prod');
    expect(events.filter((event) => event.startsWith('superseded'))).toHaveLength(1);
  });

  test('is refused if it is lost once more, and superseded then', async () => {
    const at = await openLeases({}, 'environment');
    await newer(at);
    const second = await lost(at, { again: await lost(at) });
    await newer(at);

    expect(await codeOf(again(at, second))).toBe('environment.superseded');
  });

  test('is refused if it had left the line before it was superseded', async () => {
    const at = await openLeases({}, 'environment');
    const held = await acquired(at, DEPLOY);
    const idempotencyKey = randomUUID();
    const { answer } = await inLine(at, 'old', { ...DEPLOY, idempotencyKey });
    await at.service.cancel({ idempotencyKey }, SERVICE);
    await codeOf(answer);
    await released(at, held);
    await newer(at);

    expect(await codeOf(again(at, idempotencyKey))).toBe('environment.superseded');
  });

  test('is refused if its grant was revoked by what supersedes, whatever the roles', async () => {
    const at = await openLeases({ databaseUrl: await createSlowDatabase() }, 'environment');
    const held = await acquired(at, DEPLOY);
    const idempotencyKey = randomUUID();
    const wait = { ...DEPLOY, confirms: true, idempotencyKey };
    const { answer } = await inLine(at, 'old', wait, ALIVE, OPERATOR);
    await released(at, held);
    await answer;
    const next = await inLine(at, 'new', { ...DEPLOY, supersede: 'running' });
    await at.service.cancel({ idempotencyKey }, OPERATOR);
    expect(await next.answer).toMatchObject({ outcome: 'granted' });

    await expect(again(at, idempotencyKey, {}, OPERATOR)).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'new' },
    });
  });

  test('waits for one that is superseding at that moment', async () => {
    const one = await openLeases({}, 'environment');
    const two = await openLeases({ databaseUrl: one.databaseUrl }, 'environment');
    const lostKey = await lost(one);
    const locksAwaited = await watchLocks(one);
    const [locked, end] = [aGate(), aGate()];
    const turn = one.store.general.$transaction(async (tx) => {
      await takeTurnsInLine(tx, DEPLOY);
      locked.open();
      await end.opened;
    });
    await locked.opened;
    const next = newer(one);
    await waitUntil(async () => (await locksAwaited()) > 0);
    const asked = codeOf(again(two, lostKey));
    await waitUntil(async () => (await locksAwaited()) === 2);
    end.open();
    await Promise.all([turn, next]);

    expect(await asked).toBe('environment.superseded');
  });

  test.each<[string, Change]>([
    ['supersedes nobody', { supersede: undefined }],
    ['supersedes for another action', { action: 'migrate' }],
  ])('is granted if the newer one %s', async (_, change) => {
    const at = await openLeases({}, 'environment');
    const lostKey = await lost(at);
    await newer(at, change);

    expect(await again(at, lostKey)).toMatchObject({ outcome: 'granted' });
  });

  test('is granted to an operator if the newer one is a service’s', async () => {
    const at = await openLeases({}, 'environment');
    const lostKey = await lost(at, {}, OPERATOR);
    await newer(at);

    expect(await again(at, lostKey, {}, OPERATOR)).toMatchObject({ outcome: 'granted' });
  });

  test('is granted if what supersedes came before it', async () => {
    const at = await openLeases({}, 'environment');
    await newer(at);
    const lostKey = await lost(at);

    expect(await again(at, lostKey)).toMatchObject({ outcome: 'granted' });
  });

  test('is not superseded by itself', async () => {
    const at = await openLeases({}, 'environment');
    const held = await acquired(at, DEPLOY);
    const idempotencyKey = randomUUID();
    const wait = { ...DEPLOY, supersede: 'waiting', idempotencyKey } as const;
    const { answer } = await inLine(at, 'old', wait);
    await at.service.cancel({ idempotencyKey }, SERVICE);
    await codeOf(answer);
    await released(at, held);
    await at.store.general.$executeRaw`
      update lease_request set created_at = created_at - interval '1 second'`;

    expect(await again(at, idempotencyKey)).toMatchObject({ outcome: 'granted' });
  });

  test('must be able to wait', async () => {
    const at = await openLeases({}, 'environment');

    const asked = async () => again(at, randomUUID(), { waitMs: 0 });

    await expect(asked()).rejects.toMatchObject({
      code: 'request.invalid',
      details: { field: 'again' },
    });
  });

  test('is counted as one that was superseded while it waited', async () => {
    const counted: string[] = [];
    const superseded = (was: string, count: number): void => {
      counted.push(`${was} ${String(count)}`);
    };
    const at = await openLeases({ observer: { ...SILENT_OBSERVER, superseded } }, 'environment');
    const lostKey = await lost(at);
    await newer(at);
    await codeOf(again(at, lostKey));

    expect(counted).toEqual(['waiting 1']);
  });
});

test('what has superseded others is known for longer than anybody waits, and removed then', async () => {
  const at = await openLeases({}, 'environment');
  await newer(at);
  const known = async (days: number): Promise<number> => {
    await at.store.general.$executeRaw`
      update environment_superseding set at = clock_timestamp() - ${days}::float8 * interval '1 day'`;
    await removeOldLeaseRows(at.store.general, 30, {
      clock: MACHINE_CLOCK,
      onFailure: (_kind, error) => {
        throw error;
      },
    });
    const rows = await at.store.general.$queryRaw<unknown[]>`select from environment_superseding`;
    return rows.length;
  };

  expect([await known(7.1), await known(8.1)]).toEqual([1, 0]);
});

test.each([
  [
    'the first grant of all',
    (tx: Transaction, leaseId: string) => tx.$executeRaw`
      insert into lease (
        face, namespace, name, lease_id, fencing_token, holder, principal, tag,
        ttl_ms, renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at
      )
      select 'environment', ${DEPLOY.namespace}, ${DEPLOY.name}, ${leaseId}::uuid, 1, 'old', 'token-s', ${DEPLOY.action},
        60000, 20000, 50000, 55000, clock_timestamp(), clock_timestamp(), clock_timestamp() + interval '1 minute'`,
  ],
  [
    'a grant',
    (tx: Transaction, leaseId: string) => tx.$executeRaw`
      update lease set lease_id = ${leaseId}::uuid, fencing_token = fencing_token + 1, holder = 'old',
        released_at = null, end_reason = null, expires_at = clock_timestamp() + interval '1 minute'
      where face = 'environment' and name = ${DEPLOY.name}`,
  ],
])(
  '%s that is being committed when a newer request supersedes what runs is revoked',
  async (what, write) => {
    const at = await openLeases({}, 'environment');
    if (what === 'a grant') await released(at, await acquired(at, DEPLOY));
    const locksAwaited = await watchLocks(at);
    const leaseId = randomUUID();
    const [written, end] = [aGate(), aGate()];
    // As a first try writes it, which waits in no line.
    const granting = at.store.general.$transaction(async (tx) => {
      await write(tx, leaseId);
      written.open();
      await end.opened;
    });
    await written.opened;

    const next = acquire(at, { ...DEPLOY, holder: 'new', supersede: 'running' });
    next.catch(() => undefined);
    await waitUntil(async () => (await locksAwaited()) > 0);
    end.open();
    await granting;
    await inLine(at, 'later', DEPLOY);

    expect((await eventsOf(at, DEPLOY.name)).at(-1)).toMatch(/^revoked /u);
  },
);

test('a request that supersedes what runs is not passed by one that has waited for its lock', async () => {
  const at = await openLeases({}, 'environment');
  await released(at, await acquired(at, { ...DEPLOY, holder: 'before' }));
  const locksAwaited = await watchLocks(at);

  const { newest, older } = await at.store.general.$transaction(async (tx) => {
    // The newest keeps the environment locked until this ends: it is about to record that it supersedes.
    await tx.$executeRaw`
      insert into environment_superseding (
        namespace, name, action, priority, at, after_event_id, request_id, refusal
      )
      values ('team', 'prod', 'deploy', 0, clock_timestamp(), 0, gen_random_uuid(), '{}')`;
    const superseding = acquire(at, { ...DEPLOY, holder: 'newest', supersede: 'running' });
    await waitUntil(async () => (await locksAwaited()) > 0);
    let isRefused = false;
    const passing = acquire(at, { ...DEPLOY, holder: 'older', waitMs: 0 })
      .then(({ outcome }) => outcome, String)
      .finally(() => (isRefused = true));
    await waitUntil(async () => isRefused || (await locksAwaited()) >= 2);
    // Not waited for in here.
    return { newest: () => superseding, older: () => passing };
  });

  expect(await older()).not.toBe('granted');
  expect(await newest()).toMatchObject({ outcome: 'granted' });
});

describe('a request that supersedes', () => {
  /** As the wire has it. */
  const audited = (by: Actor): CallerLife => ({
    ...ALIVE,
    entry: { ...by, action: 'environments.supersede' },
  });
  const linesOf = ({ store }: Leases): Promise<object[]> => store.general.$queryRaw<object[]>`
    select actor, role, source, resource, reason, detail from audit
    where action = 'environments.supersede' order by id`;
  const lineFor = (resource: string) => ({
    ...BY,
    resource,
    reason: null,
    detail: {
      face: 'environment',
      namespace: 'team',
      name: 'prod',
      action: 'deploy',
      holder: 'v3',
      waiting: ['v2'],
    },
  });

  test('has a line in the audit, which names whom it has superseded, unless that is nobody', async () => {
    const at = await openLeases({}, 'environment');
    const asked = { ...DEPLOY, supersede: 'waiting' } as const;
    await released(at, await acquired(at, { ...asked, holder: 'v0' }, { life: audited(BY) }));
    await acquired(at, { ...DEPLOY, holder: 'v1' });
    await inLine(at, 'v2', DEPLOY);
    await inLine(at, 'v3', asked, audited(BY));

    expect(await linesOf(at)).toEqual([lineFor('environment:team/prod')]);
  });

  test('has one line in the audit, also if the answer to its commit is lost and it is sent again', async () => {
    const at = await openLeases({}, 'environment');
    const { leaseId } = await acquired(at, { ...DEPLOY, holder: 'v1' });
    const old = await inLine(at, 'v2', DEPLOY);
    const idempotencyKey = randomUUID();
    const asked = { ...DEPLOY, holder: 'v3', supersede: 'running', idempotencyKey } as const;
    loseCommit();

    const first = acquire(at, asked, { life: audited(BY) });
    await expect(first).rejects.toThrow('Connection terminated');
    expect(await codeOf(old.answer)).toBe('environment.superseded');
    const again = await acquire(at, { ...asked, callMs: 100 }, { life: audited(BY) });

    expect(again).toMatchObject({ outcome: 'waiting', place: 1 });
    expect(await linesOf(at)).toEqual([lineFor(`lease:${leaseId}`)]);
  });

  test('does not join if it cannot be recorded: who waits and what runs go on', async () => {
    const at = await openLeases({}, 'environment');
    const running = await acquired(at, { ...DEPLOY, holder: 'v1' });
    const old = await inLine(at, 'v2', DEPLOY);
    const before = await eventsOf(at, DEPLOY.name);
    const asked = { ...DEPLOY, holder: 'v3', supersede: 'running' } as const;

    await expect(acquire(at, asked, { life: audited(UNAUDITED) })).rejects.toThrow();

    expect(await lineOf(at, DEPLOY.name)).toEqual(['v2']);
    expect(await eventsOf(at, DEPLOY.name)).toEqual(before);
    expect(await at.store.general.$queryRaw`select from environment_superseding`).toEqual([]);
    const renewal = at.service.heartbeat({ localTimeMs: 1, renewals: [running] }, SERVICE);
    expect(await renewal).toMatchObject([{ outcome: 'renewed' }]);
    await released(at, running);
    expect(await old.answer).toMatchObject({ outcome: 'granted' });
  });
});

const send = Reflect.get(pg.Client.prototype, 'query') as (...given: unknown[]) => unknown;

/** Lets the commit of the next request that supersedes be carried out, and its answer be lost. */
function loseCommit(): void {
  const superseding = new WeakSet<pg.Client>();
  const spy = vi.spyOn(pg.Client.prototype, 'query').mockImplementation(function (
    this: pg.Client,
    ...given: unknown[]
  ) {
    const [query] = given;
    const text = typeof query === 'string' ? query : (query as { readonly text?: string }).text;
    if (text?.includes('insert into environment_superseding') === true) superseding.add(this);
    const sent = Reflect.apply(send, this, given);
    if (text !== 'commit' || !superseding.has(this)) return sent as never;
    return Promise.resolve(sent).then(() => {
      throw new Error('Connection terminated unexpectedly');
    }) as never;
  });
  onTestFinished(() => spy.mockRestore());
}

/** How many wait for a lock of others, by a session that is open before the first of them waits: they may give up. */
async function watchLocks(at: Leases): Promise<() => Promise<number>> {
  const session = await openSession(at);
  return async () => {
    const { rows } = await session.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return rows.length;
  };
}
