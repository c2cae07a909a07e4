import { waitUntil } from '@leasehold/testing';
import { describe, expect, test } from 'vitest';
import { AsyncCalls, type Execute } from './async-calls.ts';
import { aGate, startService, type Service } from './testing/service.ts';

const callsOf = (service: Service): AsyncCalls => new AsyncCalls(service.coordinator, service.pool);

async function start(): Promise<{ service: Service; calls: AsyncCalls; others: AsyncCalls }> {
  const service = await startService('async-calls.sql');
  const others = callsOf(service.join('second'));
  return { service, calls: callsOf(service), others };
}

function tableOf({ sql }: Service): Promise<Record<string, unknown>[]> {
  return sql(
    'select verb, state, attempts_left, response, error, lease_id from async_call order by id',
  );
}

const answer: Execute = ({ request }) => Promise.resolve({ echo: request });

describe('async calls', () => {
  test('a call is executing while its lease is held; its completion ends the lease', async () => {
    const { service, calls } = await start();
    await calls.schedule('greet', 'world');
    let meanwhile: unknown;

    const outcome = await calls.executeNext(async (call, signal) => {
      meanwhile = await tableOf(service);
      return answer(call, signal);
    });

    const held = await service.ourSql('select from lease where end_reason is null');
    expect(outcome).toBe('done');
    expect(meanwhile).toMatchObject([{ state: 'executing', attempts_left: 2 }]);
    expect(await tableOf(service)).toMatchObject([
      { verb: 'greet', state: 'done', response: { echo: 'world' }, lease_id: null },
    ]);
    expect(held).toEqual([]);
    expect(await calls.executeNext(answer)).toBe('nothing to do');
  });

  test('a call that fails is tried again, until its attempts are used up', async () => {
    const { service, calls } = await start();
    await calls.schedule('greet', 'world');
    const outcomes = [];

    for (let round = 0; round < 4; round += 1) {
      outcomes.push(await calls.executeNext(() => Promise.reject(new Error('no'))));
    }

    expect(outcomes).toEqual(['failed', 'failed', 'failed', 'nothing to do']);
    expect(await tableOf(service)).toMatchObject([{ state: 'failed', error: 'Error: no' }]);
  });

  test('a completion that cannot be written leaves the call executing under its lease', async () => {
    const { service, calls, others } = await start();
    await calls.schedule('greet', 'world');
    await service.sql(`alter table async_call add constraint no_answers check (state <> 'done')`);

    await expect(calls.executeNext(answer)).rejects.toThrow(/no_answers/u);

    const held = await service.ourSql('select from lease where end_reason is null');
    expect(await tableOf(service)).toMatchObject([{ state: 'executing' }]);
    expect(held).toHaveLength(1);
    expect(await others.executeNext(answer)).toBe('nothing to do');
  });

  test('C58 the call of a dead coordinator is reaped and executed by another; the late completion writes nothing', async () => {
    const { service, calls, others } = await start();
    await calls.schedule('greet', 'world');
    const begun = aGate();
    const goOn = aGate();
    const zombie = calls.executeNext(async () => {
      begun.open();
      await goOn.opened;
      return 'too late';
    });
    await begun.opened;
    await service.letLeasesExpire();

    const reap = await others.reap();
    const retried = await others.executeNext(answer);
    goOn.open();

    expect(reap.calledCount).toBe(1);
    expect(retried).toBe('done');
    expect(await zombie).toBe('lost');
    expect(await tableOf(service)).toMatchObject([
      { state: 'done', response: { echo: 'world' }, attempts_left: 1 },
    ]);
  });

  test('C9 with many coordinators, some of which die in a call, each call is completed exactly once', async () => {
    const { service } = await start();
    const coordinators = ['a', 'b', 'c', 'd'].map((name) => callsOf(service.join(name)));
    const [schedule] = coordinators;
    for (let number = 0; number < 24; number += 1) await schedule?.schedule('square', number);
    await service.sql(`create table completion (call_id bigint);
       create function note_completion() returns trigger language plpgsql as $$
       begin insert into completion values (new.id); return null; end $$;
       create trigger completed after update on async_call
         for each row when (new.state = 'done') execute function note_completion()`);
    let begunCount = 0;
    const zombies = aGate();
    const ended: Promise<unknown>[] = [];
    /** The execution that a coordinator is at work on; none while it is idle or hangs. */
    const busy = new Map<AsyncCalls, symbol>();
    const work = (calls: AsyncCalls): void => {
      if (busy.has(calls)) return;
      const execution = Symbol('execution');
      busy.set(calls, execution);
      const leave = (): void => {
        if (busy.get(calls) === execution) busy.delete(calls);
      };
      // Every fourth execution hangs, as if its process had died in it, and comes back too late.
      const execute: Execute = async ({ request }) => {
        begunCount += 1;
        if (begunCount % 4 === 0) {
          leave();
          await zombies.opened;
        }
        return Number(request) ** 2;
      };
      ended.push(calls.executeNext(execute).finally(leave));
    };

    await waitUntil(
      async () => {
        const [left] = await service.sql<{
          pending: number;
          executing: number;
        }>(`select count(*) filter (where state = 'pending')::int as pending,
             count(*) filter (where state = 'executing')::int as executing from async_call`);
        if (left === undefined) return false;
        if (left.pending > 0) coordinators.forEach(work);
        // Only executions that hang are left. One that is at work keeps its lease, however slow it is.
        else if (left.executing > 0 && busy.size === 0) {
          await service.letLeasesExpire();
          await Promise.all(coordinators.map((calls) => calls.reap()));
        }
        return left.pending === 0 && left.executing === 0;
      },
      { timeoutMs: 25_000 },
    );
    zombies.open();
    const outcomes = await Promise.all(ended);

    const completions = await service.sql('select call_id from completion order by call_id');
    const rows = await tableOf(service);
    expect(outcomes).toContain('lost');
    expect(rows.map(({ state }) => state)).toEqual(rows.map(() => 'done'));
    expect(rows.map(({ response }) => response)).toEqual(rows.map((_, index) => index ** 2));
    expect(completions).toHaveLength(24);
  });
});
