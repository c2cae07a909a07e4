import { describe, expect, test } from 'vitest';
import { LeaseError } from '@leasehold/keys-core';
import type { PrincipalUse } from '../../fair-use/fair-use.ts';
import { createCallScheduler, type CallScheduler } from './call-scheduler.ts';
import type { WireCall } from './inbox.ts';

/** A turn of the event loop. */
const turn = (): Promise<unknown> => new Promise(setImmediate);

interface TestConnection {
  readonly begun: string[];
  readonly refused: string[];
  isPaused: boolean;
  isBehind: boolean;
  readonly receive: (message: string) => void;
  readonly close: () => void;
}

/** Everything that is begun, over all connections, in order. */
interface Stage {
  readonly scheduler: CallScheduler;
  readonly order: string[];
  /** How long it takes to begin or to refuse a call. */
  costMs: number;
  /** What the gate keeps back. */
  isKept: (call: WireCall) => boolean;
  readonly kept: WireCall[];
  add(name: string, use?: Partial<PrincipalUse>): TestConnection;
  /** Lets the calls that were begun run this long in the same turn. */
  passes(ms: number): void;
}

function openStage(): Stage {
  let nowMs = 0;
  const order: string[] = [];
  const stage: Stage = {
    order,
    costMs: 0.1,
    isKept: () => false,
    kept: [],
    scheduler: createCallScheduler(() => nowMs, {
      begin: (connection, call) => {
        if (stage.isKept(call)) {
          stage.kept.push(call);
          return false;
        }
        connection.begin(call);
        return true;
      },
      wouldKeep: (call) => stage.isKept(call),
      beginTurn: () => undefined,
      forget: () => undefined,
    }),
    passes(ms) {
      nowMs += ms;
    },
    add(name, use = {}) {
      const connection = {
        begun: [] as string[],
        refused: [] as string[],
        isPaused: false,
        isBehind: false,
      };
      const part = stage.scheduler.add({
        use: {
          principal: name,
          role: 'client',
          isBehind: () => connection.isBehind,
          assertBatch: () => undefined,
          countCalls: () => undefined,
          ...use,
        } as unknown as PrincipalUse,
        begin: (call) => {
          nowMs += stage.costMs;
          connection.begun.push(String(call.id));
          order.push(name);
        },
        refuse: (call, error: LeaseError) => {
          nowMs += stage.costMs;
          connection.refused.push(`${String(call?.id)} ${error.code}`);
        },
        setPaused: (isPaused) => {
          connection.isPaused = isPaused;
        },
      });
      return Object.assign(connection, part);
    },
  };
  return stage;
}

function message(...paths: string[]): string {
  const calls: WireCall[] = paths.map((path, id) => ({ id, method: 'query', params: { path } }));
  return JSON.stringify(calls.length === 1 ? calls[0] : calls);
}

/** As tRPC's client writes it. */
function acquireOf(id: number): string {
  const params = { input: { localTimeMs: 1, items: [] }, path: 'leases.acquireMany' };
  return JSON.stringify({ id, method: 'mutation', params });
}

const many = (count: number): string => message(...new Array<string>(count).fill('keys.get'));

describe('call scheduler', () => {
  test('an idle controller begins a call in the turn in which it arrives', async () => {
    const stage = openStage();
    const connection = stage.add('a');

    connection.receive(message('keys.get'));
    await Promise.resolve();
    await Promise.resolve();

    expect(connection.begun).toEqual(['0']);
  });

  test('a batch of a thousand calls is spread over turns, and all of them are begun in order', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.receive(many(1_000));

    await turn();
    const first = connection.begun.length;
    while (connection.begun.length < 1_000) await turn();

    expect(first).toBeLessThan(100);
    expect(connection.begun).toEqual(Array.from({ length: 1_000 }, (_, id) => String(id)));
  });

  test('after a turn that its calls made long, the next turn begins fewer calls', async () => {
    const stage = openStage();
    stage.costMs = 0.01;
    const connection = stage.add('a');
    connection.receive(many(1_000));
    const begunPerTurn: number[] = [];

    for (let nth = 0; nth < 6; nth += 1) {
      const before = connection.begun.length;
      stage.passes(30);
      await turn();
      begunPerTurn.push(connection.begun.length - before);
    }

    expect(begunPerTurn.at(-1)).toBeLessThanOrEqual(4);
    expect(begunPerTurn.at(-1)).toBeGreaterThan(0);
  });

  test('long turns that one principal makes do not hold back the calls of another', async () => {
    const stage = openStage();
    stage.costMs = 0.01;
    const greedy = stage.add('greedy');
    greedy.receive(many(1_000));
    for (let nth = 0; nth < 6; nth += 1) {
      stage.passes(30);
      await turn();
    }

    const modest = stage.add('modest');
    modest.receive(many(4));
    stage.passes(30);
    await turn();
    await turn();

    expect(modest.begun).toHaveLength(4);
  });

  test('calls that the gate keeps back reach it in one turn, however few calls a turn begins', async () => {
    const stage = openStage();
    stage.costMs = 1;
    stage.isKept = (call) => call.params?.path === 'leases.acquireMany';
    const connection = stage.add('a');
    for (let nth = 0; nth < 20; nth += 1) connection.receive(many(20));
    for (let id = 0; id < 300; id += 1) stage.add('b').receive(acquireOf(id));

    await turn();

    expect(stage.kept).toHaveLength(300);
    expect(connection.begun.length).toBeLessThan(20);
  });

  test('a call that the gate keeps back is not parsed', async () => {
    const stage = openStage();
    stage.isKept = (call) => call.params?.path === 'leases.acquireMany';
    const text = acquireOf(7);

    stage.add('a').receive(text);
    await turn();

    expect(stage.kept).toEqual([
      { id: 7, method: 'mutation', params: { path: 'leases.acquireMany' }, unread: text },
    ]);
  });

  test('a call that asks for grants reaches the gate before the message behind it is read', async () => {
    const stage = openStage();
    stage.costMs = 100;
    const connection = stage.add('a');
    connection.receive(acquireOf(1));
    connection.receive('not a call');

    while (connection.begun.length === 0) await Promise.resolve();

    expect(connection.refused).toEqual([]);
    while (connection.refused.length === 0) await turn();
  });

  test('a drone is served in the next turn, however much others have sent', async () => {
    const stage = openStage();
    for (let index = 0; index < 12; index += 1) {
      stage.add(`viewer`).receive(many(1_000));
    }
    await turn();
    const drone = stage.add('drone', { role: 'drone' });

    drone.receive(message('keys.renew'));
    await turn();
    await turn();

    expect(drone.begun).toEqual(['0']);
    expect(stage.order.length).toBeLessThan(200);
  });

  test('principals take turns, whatever each has sent over however many connections', async () => {
    const stage = openStage();
    for (let index = 0; index < 50; index += 1) stage.add('greedy').receive(many(500));
    const modest = stage.add('modest');
    modest.receive(many(20));
    while (modest.begun.length < 20) await turn();

    const before = stage.order.slice(0, stage.order.lastIndexOf('modest'));
    expect(before.filter((name) => name === 'greedy').length).toBeLessThan(200);
  });

  test('renewals, heartbeats and releases go before the other calls of their connection', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.receive(many(500));
    await turn();
    const before = connection.begun.length;

    connection.receive(JSON.stringify({ id: 'beat', params: { path: 'leases.heartbeat' } }));
    await turn();
    await turn();

    expect(connection.begun.indexOf('beat')).toBeGreaterThanOrEqual(before);
    expect(connection.begun.indexOf('beat')).toBeLessThan(before + 100);
  });

  test('a connection whose queue is full is not read until half of the queue is begun', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    for (let index = 0; index < 10; index += 1) connection.receive(many(500));
    const isPaused = (): boolean => connection.isPaused;
    while (!isPaused()) await turn();
    while (isPaused()) await turn();
    const begunCount = connection.begun.length;

    expect(begunCount).toBeGreaterThan(1_000);
    expect(begunCount).toBeLessThan(5_000);
  });

  test('a caller that does not read its answers is not served, except for its renewals', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.isBehind = true;
    connection.receive(message('keys.get', 'leases.heartbeat'));
    await turn();
    await turn();

    expect(connection.begun).toEqual(['1']);
    connection.isBehind = false;
    while (connection.begun.length < 2) await turn();
  });

  test('a connection whose principal does not read its answers elsewhere is read on: its later renewals are begun', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.isBehind = true;
    connection.receive(message('leases.acquire'));
    await turn();
    const isReadOn = !connection.isPaused;
    connection.receive(JSON.stringify({ id: 'beat', params: { path: 'leases.heartbeat' } }));
    await turn();

    expect([isReadOn, connection.begun]).toEqual([true, ['beat']]);
  });

  test('a connection that sends on while nothing of it is begun is paused when its queue is full', async () => {
    const stage = openStage();
    const [many500, few] = [stage.add('a'), stage.add('b')];
    for (const one of [many500, few]) one.isBehind = true;
    const long = JSON.stringify({ id: 1, params: { path: 'keys.get', input: 'x'.repeat(50_000) } });

    for (let nth = 0; nth < 10; nth += 1) many500.receive(many(500));
    for (let nth = 0; nth < 12; nth += 1) {
      few.receive(long);
      await turn();
    }
    while (!many500.isPaused) await turn();

    expect([many500.begun, few.begun, few.isPaused]).toEqual([[], [], true]);
  });

  test('calls beyond the rate are refused one by one, and the connection is paused', async () => {
    const stage = openStage();
    const error = Object.assign(new Error('no'), {});
    const { LeaseError: Refusal } = await import('@leasehold/keys-core');
    const connection = stage.add('a', {
      countCalls: () => {
        throw new Refusal('request.rate_limited', error.message, { details: { retryAfterMs: 50 } });
      },
    });

    connection.receive(many(2));
    await turn();

    expect(connection.refused).toEqual(['0 request.rate_limited', '1 request.rate_limited']);
    expect(connection.isPaused).toBe(true);
  });

  test('a message without a valid call is refused as a whole, and the next one is read', async () => {
    const stage = openStage();
    const connection = stage.add('a');

    for (const text of ['{"id":', '[]', '7', 'null']) connection.receive(text);
    connection.receive(message('keys.get'));
    await turn();
    await turn();

    expect(connection.refused).toEqual(new Array(4).fill('undefined request.invalid'));
    expect(connection.begun).toEqual(['0']);
  });

  describe('a message of more calls than it may have', () => {
    const tooMany = (): never => {
      throw new LeaseError('quota.exceeded');
    };
    const items = `[${new Array<string>(5_000).fill('{}').join(',')}]`;

    test('counts with each of its calls', async () => {
      let countedCount = 0;
      const connection = openStage().add('a', {
        countCalls: (count) => {
          countedCount += count;
        },
        assertBatch: tooMany,
      });

      connection.receive(items);
      await turn();

      expect(countedCount).toBe(5_000);
      expect(connection.refused[0]).toBe('undefined quota.exceeded');
    });

    test('pauses the connection when its calls are beyond the rate', async () => {
      const stage = openStage();
      const connection = stage.add('a', {
        countCalls: () => {
          throw new LeaseError('request.rate_limited', undefined, {
            details: { retryAfterMs: 250 },
          });
        },
        assertBatch: tooMany,
      });

      connection.receive(message('keys.get', 'keys.get'));
      await turn();

      expect(connection.refused).toEqual(['0 request.rate_limited', '1 request.rate_limited']);
      expect(connection.isPaused).toBe(true);
    });

    test('is refused over many turns, in which others are served, and what is behind it is read after it', async () => {
      const stage = openStage();
      const connection = stage.add('a', {
        assertBatch: (count) => {
          if (count > 100) tooMany();
        },
      });
      const other = stage.add('b');

      connection.receive(items);
      connection.receive(message('keys.get'));
      other.receive(message('keys.get'));
      while (other.begun.length === 0) await turn();
      const refusedFirst = connection.refused.length;
      while (connection.begun.length === 0) await turn();

      expect(refusedFirst).toBeLessThan(500);
      expect(connection.refused).toHaveLength(5_000);
    });

    test('is refused slowly while its caller does not read the answers', async () => {
      const stage = openStage();
      const connection = stage.add('a', { assertBatch: tooMany });
      connection.isBehind = true;

      connection.receive(items);
      for (let turns = 0; turns < 10; turns += 1) await turn();

      expect(connection.refused.length).toBeLessThan(500);
      expect(connection.isPaused).toBe(true);
      connection.isBehind = false;
      while (connection.refused.length < 5_000) await turn();
    });
  });

  test('the end of a stream is begun first, although its caller does not read its answers and calls too often', async () => {
    const stage = openStage();
    let countedCount = 0;
    const connection = stage.add('a', {
      countCalls: (count) => {
        countedCount += count;
        throw new LeaseError('request.rate_limited', undefined, { details: { retryAfterMs: 1 } });
      },
    });
    connection.isBehind = true;

    connection.receive(JSON.stringify({ id: 'stream', method: 'subscription.stop' }));
    while (connection.begun.length === 0) await turn();

    expect(connection.begun).toEqual(['stream']);
    expect([connection.refused, countedCount]).toEqual([[], 1]);
  });

  test.each([
    ['null', 'null'],
    ['a list', '[1]'],
    ['missing', undefined],
  ])('the end of a stream whose id is %s is refused as any other call', async (_what, id) => {
    const stage = openStage();
    const connection = stage.add('a', {
      countCalls: () => {
        throw new LeaseError('request.rate_limited', undefined, { details: { retryAfterMs: 1 } });
      },
    });

    const named = id === undefined ? '' : `"id":${id},`;
    connection.receive(`{${named}"method":"subscription.stop"}`);
    await turn();

    expect([connection.begun, connection.refused.length]).toEqual([[], 1]);
  });

  test('the end of a stream that has not begun yet does not overtake it', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.isBehind = true;
    const call = { id: 'stream', method: 'subscription', params: { path: 'events.watch' } };
    connection.receive(JSON.stringify(call));
    await turn();

    connection.receive(JSON.stringify({ id: 'stream', method: 'subscription.stop' }));
    connection.receive(JSON.stringify({ id: 'beat', params: { path: 'leases.heartbeat' } }));
    await turn();
    const begunBefore = [...connection.begun];
    connection.isBehind = false;
    while (connection.begun.length < 3) await turn();

    expect(begunBefore).toEqual(['beat']);
    expect(connection.begun).toEqual(['beat', 'stream', 'stream']);
  });

  test('messages without a valid call count as calls: beyond the rate they are refused as too many, and the connection is paused', async () => {
    const stage = openStage();
    let countedCount = 0;
    const connection = stage.add('a', {
      countCalls: (count) => {
        countedCount += count;
        if (countedCount <= 2) return;
        throw new LeaseError('request.rate_limited', undefined, { details: { retryAfterMs: 250 } });
      },
    });

    for (let nth = 0; nth < 100; nth += 1) connection.receive('{"id":');
    for (let turns = 0; turns < 10; turns += 1) await turn();

    expect(connection.refused).toEqual([
      'undefined request.invalid',
      'undefined request.invalid',
      'undefined request.rate_limited',
    ]);
    expect(connection.isPaused).toBe(true);
  });

  test('a caller that does not read its answers gets no row of refusals for messages without a valid call', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.isBehind = true;

    for (let nth = 0; nth < 100; nth += 1) connection.receive('{"id":');
    for (let turns = 0; turns < 10; turns += 1) await turn();

    expect(connection.refused.length).toBeLessThan(10);
    expect(connection.isPaused).toBe(true);
    connection.isBehind = false;
    while (connection.refused.length < 100) await turn();
  });

  test('no call of a closed connection is begun', async () => {
    const stage = openStage();
    const connection = stage.add('a');
    connection.receive(many(500));
    await turn();
    const begunCount = connection.begun.length;

    connection.close();
    await turn();
    await turn();

    expect(connection.begun.length).toBe(begunCount);
  });

  test('what follows a message over the limit is not even counted until the pause is over', async () => {
    const stage = openStage();
    let countedCount = 0;
    const refuse = (): void => {
      countedCount += 1;
      throw new LeaseError('request.rate_limited', undefined, { details: { retryAfterMs: 250 } });
    };
    const connection = stage.add('a', { countCalls: refuse });

    for (let nth = 0; nth < 1_000; nth += 1) connection.receive(message('keys.get'));
    for (let turns = 0; turns < 10; turns += 1) await turn();

    expect(countedCount).toBe(1);
    expect(connection.refused).toEqual(['0 request.rate_limited']);
    expect(connection.isPaused).toBe(true);
  });
});
