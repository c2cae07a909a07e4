import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { aGate, makeNotes, note, openSession } from '../testing/coordinator-fixture.ts';
import { age, eventsOf, openKernel, type Kernel } from '../testing/kernel-fixture.ts';
import { waitUntil } from '@leasehold/testing';
import { lineOf } from '../testing/lease-fixture.ts';
import { invariant } from '../kernel/errors.ts';
import { turnTopic } from '../kernel/resource.ts';
import { revoke } from '../grants/sql/revoke.ts';
import {
  tryAcquireEnvironment,
  withEnvironmentLease,
  type Environment,
  type EnvironmentAcquire,
  type EnvironmentLease,
  type EnvironmentLeaseDeps,
  type EnvironmentUse,
} from './environment-lease.ts';
import type { CallbackSql } from '../postgres/open-store.ts';

function depsOf(kernel: Kernel, principal = 'token-a'): EnvironmentLeaseDeps<CallbackSql> {
  const { store, leases } = kernel;
  return { store, leases, principal };
}

const DEPLOY = { action: 'actuation', holder: 'host-a' } as const;

async function leased(
  kernel: Kernel,
  environment: Environment = 'prod',
  request: { action: string; holder: string; durationMs?: number } = DEPLOY,
): Promise<EnvironmentLease> {
  const answer = await tryAcquireEnvironment(depsOf(kernel), environment, request);
  invariant(answer.outcome === 'granted', `the test expected a grant, and it is ${answer.outcome}`);
  return answer.lease;
}

function eventKinds(kernel: Kernel, name = 'prod'): Promise<string[]> {
  return eventsOf(kernel, name).then((lines) => lines.map((line) => line.split(' ')[0] ?? ''));
}

describe('tryAcquireEnvironment', () => {
  test('C30 refuses a held environment at once, with its holder, start, action and comment', async () => {
    const kernel = await openKernel();
    const request = { ...DEPLOY, comment: 'release 7' };
    await tryAcquireEnvironment(depsOf(kernel), 'prod', request);
    const [row] = await kernel.store.general.$queryRaw<{ at: Date }[]>`
      select granted_at as at from lease`;

    const answer = await tryAcquireEnvironment(depsOf(kernel), 'prod', {
      action: 'verification',
      holder: 'host-b',
    });

    expect(answer).toMatchObject({
      outcome: 'held',
      by: 'host-a',
      since: row?.at.toISOString(),
      comment: 'release 7',
      action: 'actuation',
      waiters: 0,
    });
  });

  test('C19 leases an expired environment; a lease lasts a minute unless the request says otherwise', async () => {
    const kernel = await openKernel();
    const usual = await leased(kernel, 'prod');
    const short = await leased(kernel, 'test', { ...DEPLOY, durationMs: 5_000 });
    await age(kernel, usual.leaseId, 58_000);
    await age(kernel, short.leaseId, 5_000);

    const answers = await Promise.all(
      ['prod', 'test'].map((name) => tryAcquireEnvironment(depsOf(kernel), name, DEPLOY)),
    );
    await age(kernel, usual.leaseId, 2_000);

    expect(answers.map((answer) => answer.outcome)).toEqual(['held', 'granted']);
    expect((await leased(kernel)).leaseId).not.toBe(usual.leaseId);
  });

  test('waits in line for a held environment, and is superseded there by a newer request', async () => {
    const kernel = await openKernel();
    const held = await leased(kernel);
    const request = { ...DEPLOY, waitMs: 3_600_000 };
    const older = tryAcquireEnvironment(depsOf(kernel), 'prod', { ...request, holder: 'old' });
    await waitUntil(async () => (await lineOf(kernel, 'prod')).join() === 'old');
    const newest = tryAcquireEnvironment(depsOf(kernel), 'prod', {
      ...request,
      holder: 'new',
      supersede: 'waiting',
    });

    await expect(older).rejects.toMatchObject({
      code: 'environment.superseded',
      details: { by: 'new' },
    });
    await held.close();
    expect(await newest).toMatchObject({ outcome: 'granted' });
  });

  test('calls that wait in one process look for the one that is next, and for no other', async () => {
    const kernel = await openKernel();
    const held = await leased(kernel);
    const looks = vi.spyOn(kernel.leases, 'refusal');
    onTestFinished(() => looks.mockRestore());
    const waits: Promise<EnvironmentAcquire>[] = [];
    for (const holder of ['w1', 'w2', 'w3']) {
      const request = { ...DEPLOY, holder, waitMs: 60_000 };
      waits.push(tryAcquireEnvironment(depsOf(kernel), 'prod', request));
      await waitUntil(async () => (await lineOf(kernel, 'prod')).includes(holder));
    }
    await waitUntil(() => looks.mock.calls.length >= 3);
    const lookedFor = new Set(looks.mock.calls.map(([{ holder }]) => holder));
    await held.close();
    for (const wait of waits) {
      const answer = await wait;
      if (answer.outcome === 'granted') await answer.lease.close();
    }

    expect(lookedFor).toEqual(new Set(['w1']));
  });

  test('await using releases the lease', async () => {
    const kernel = await openKernel();

    {
      await using lease = await leased(kernel);
      expect(lease.fencingToken).toMatch(/^\d+$/u);
    }

    expect(await eventKinds(kernel)).toEqual(['granted', 'released']);
  });

  test('C9 only one of many requests at once is granted; all others are told the holder', async () => {
    const kernel = await openKernel();
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });

    const answers = await Promise.all(
      Array.from({ length: 32 }, (_, index) =>
        tryAcquireEnvironment(depsOf(index % 2 === 0 ? kernel : other), 'prod', {
          action: 'actuation',
          holder: `host-${String(index)}`,
        }),
      ),
    );

    const refused = answers.flatMap((answer) => (answer.outcome === 'held' ? [answer.by] : []));
    expect(refused).toHaveLength(31);
    expect(new Set(refused).size).toBe(1);
  });

  test('accepts a host name of 255 bytes, and refuses a longer one and other invalid values', async () => {
    const kernel = await openKernel();
    const long = 'h'.repeat(255);

    const lease = await leased(kernel, 'prod', { action: 'actuation', holder: long });

    expect(lease).toBeDefined();
    await expect(leased(kernel, 'test', { ...DEPLOY, holder: `${long}h` })).rejects.toMatchObject({
      code: 'request.invalid',
    });
    await expect(leased(kernel, 'test', { ...DEPLOY, action: '' })).rejects.toMatchObject({
      code: 'request.invalid',
    });
    await expect(leased(kernel, [])).rejects.toMatchObject({ code: 'request.invalid' });
    await expect(leased(kernel, ['a.b', 'prod'])).rejects.toMatchObject({
      code: 'request.invalid',
    });
    await expect(leased(kernel, 'test', { ...DEPLOY, durationMs: 10 })).rejects.toMatchObject({
      code: 'lease.ttl_out_of_range',
    });
  });
});

describe('withEnvironmentLease', () => {
  const use = <Recorded>(
    kernel: Kernel,
    change: Pick<EnvironmentUse<Recorded, CallbackSql>, 'record'> &
      Partial<EnvironmentUse<Recorded, CallbackSql>>,
  ) => withEnvironmentLease(depsOf(kernel), 'prod', { ...DEPLOY, ...change });

  test('checks, records and releases in one commit', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const session = await openSession(kernel);
    const seen: unknown[] = [];

    const outcome = await use(kernel, {
      veto: () => null,
      async record(tx) {
        await note(tx, 'deploying');
        const { rows } = await session.query(
          `select (select count(*)::int from note) as notes, end_reason from lease`,
        );
        seen.push(...(rows as unknown[]));
        return 7;
      },
    });

    expect(outcome).toMatchObject({ outcome: 'recorded', recorded: 7 });
    // Another session saw nothing of it before the commit.
    expect(seen).toEqual([{ notes: 0, end_reason: null }]);
    expect(await notes()).toEqual(['deploying']);
    expect(await eventKinds(kernel)).toEqual(['granted', 'released']);
    const ids = await kernel.store.general.$queryRaw<{ xids: number }[]>`
      select count(distinct x)::int as xids from (
        select xmin::text as x from note union all
        select xmin::text from lease_event where kind = 'released' union all
        select xmin::text from lease
      ) t`;
    expect(ids).toEqual([{ xids: 1 }]);
  });

  test('wakes the first in line when it releases', async () => {
    const kernel = await openKernel();
    const woken = vi.fn();
    const next = { ...DEPLOY, holder: 'next', waitMs: 60_000 };
    const waiting: Promise<EnvironmentAcquire>[] = [];

    await use(kernel, {
      async record() {
        waiting.push(tryAcquireEnvironment(depsOf(kernel), 'prod', next));
        await waitUntil(async () => (await lineOf(kernel, 'prod')).join() === 'next');
        const [ticket] = await kernel.store.general.$queryRaw<{ id: string }[]>`
          select ticket_id as id from lease_waiter`;
        onTestFinished(kernel.store.hints.on(turnTopic(ticket?.id ?? ''), woken));
      },
    });

    expect(woken).toHaveBeenCalledOnce();
    await expect(waiting[0]).resolves.toMatchObject({ outcome: 'granted' });
  });

  test.each([
    ['one reason', 'a verification runs', ['a verification runs']],
    ['several', ['a', 'b'], ['a', 'b']],
  ])('a veto with %s records nothing, and its reasons are kept', async (_how, veto, reasons) => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);

    const outcome = await use(kernel, { veto: () => veto, record: (tx) => note(tx, 'deploying') });

    expect(outcome).toEqual({ outcome: 'vetoed', reasons });
    expect(await notes()).toEqual([]);
    expect(await eventKinds(kernel)).toEqual(['granted', 'failed']);
    expect(
      await kernel.store.general.$queryRaw`select reason from lease_event where kind = 'failed'`,
    ).toEqual([{ reason: `vetoed: ${reasons.join('; ')}` }]);
    expect(await leased(kernel)).toBeDefined();
  });

  test.each([new TypeError('mi\0ne'), Symbol('mine'), Object.create(null) as Error])(
    'rethrows what record throws unchanged, keeps nothing, and frees the environment',
    async (thrown) => {
      const kernel = await openKernel();
      const notes = await makeNotes(kernel);
      const using = use(kernel, {
        async record(tx) {
          await note(tx, 'deploying');
          return Promise.reject(thrown as Error);
        },
      });
      await expect(using).rejects.toBe(thrown);
      expect(await notes()).toEqual([]);
      expect(await eventKinds(kernel)).toEqual(['granted', 'failed']);
      expect(await leased(kernel)).toBeDefined();
    },
  );

  test('only one of many uses at once records, if each record vetoes the others', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const other = await openKernel({ databaseUrl: kernel.databaseUrl });
    const checkAndRecord = (on: Kernel, action: string) =>
      withEnvironmentLease(depsOf(on), 'prod', {
        action,
        holder: action,
        async veto(tx) {
          const rows = await tx.$queryRaw<{ text: string }[]>`select text from note`;
          return rows.map((row) => `${row.text} runs`);
        },
        record: (tx) => note(tx, action),
      });

    const outcomes = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        checkAndRecord(index % 2 === 0 ? kernel : other, `action-${String(index)}`),
      ),
    );
    const after = await checkAndRecord(kernel, 'late');

    const recorded = outcomes.filter((outcome) => outcome.outcome === 'recorded');
    expect(recorded).toHaveLength(1);
    expect(await notes()).toHaveLength(1);
    expect(after).toMatchObject({ outcome: 'vetoed' });
  });

  test('C55 records nothing if the environment is revoked meanwhile', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);

    const using = use(kernel, {
      async record(tx) {
        await note(tx, 'deploying');
        const [row] = await kernel.store.general.$queryRaw<{ id: string }[]>`
          select lease_id::text as id from lease`;
        await revoke(kernel.store.general, 'environment', [
          {
            leaseId: row?.id ?? '',
            mode: 'force',
            abandon: false,
            actor: 'op',
            reason: 'r',
            namespaces: null,
          },
        ]);
      },
    });

    await expect(using).rejects.toMatchObject({ code: 'lease.not_held' });
    expect(await notes()).toEqual([]);
    expect(await eventKinds(kernel)).toEqual(['granted', 'revoked']);
  });

  test('keeps others out while its work outlasts the lease, and does not commit', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const goOn = aGate();
    const begun = aGate();

    const using = use(kernel, {
      async record(tx) {
        await note(tx, 'deploying');
        begun.open();
        await goOn.opened;
      },
    });
    using.catch(() => undefined);
    await begun.opened;
    const [row] = await kernel.store.general.$queryRaw<{ id: string }[]>`
      select lease_id::text as id from lease`;
    await age(kernel, row?.id ?? '', 60_000);
    const meanwhile = await tryAcquireEnvironment(depsOf(kernel), 'prod', DEPLOY);
    goOn.open();

    expect(meanwhile.outcome).toBe('held');
    await expect(using).rejects.toMatchObject({ code: 'lease.not_held' });
    expect(await notes()).toEqual([]);
  });
});
