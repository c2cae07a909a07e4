import { describe, expect, test } from 'vitest';
import type { StartRequest, StopRequest } from './protocol.ts';
import {
  extensionProblem,
  type HeldDeadlines,
  type OwnedProcess,
  startProblem,
  WardenBackend,
} from './warden.ts';

/** A fake process that notes what it is sent and ends when told to. */
function fakeProcess(): OwnedProcess & { pid: number; sent: string[]; end(): void } {
  const sent: string[] = [];
  let isGone = false;
  return {
    pid: 1,
    exitCode: null,
    sent,
    signalStop: () => sent.push('stop'),
    kill: () => sent.push('kill'),
    isGone: () => isGone,
    end: () => {
      isGone = true;
    },
  };
}

const request: StartRequest = {
  backendId: 'b1',
  leaseId: 'one',
  softAtMs: 40_000,
  hardAtMs: 50_000,
  hardAfterMs: 50_000,
  softToHardMs: 10_000,
  leashMs: 2_500,
  program: 'test',
  user: null,
  places: { hidden: [], blocked: [], reads: [], fixed: [] },
  command: '/bin/true',
  args: [],
  env: {},
  cwd: '/',
  stopSignal: 'SIGTERM',
  stopGraceMs: 3_000,
  meta: null,
};

function stopOf(fields: Partial<StopRequest>): StopRequest {
  return { backendId: 'b1', mode: 'soft', reason: 'external', isKeyLost: false, ...fields };
}

describe('a backend of the warden', () => {
  test('C22 is asked to stop at soft and killed at hard', () => {
    const process = fakeProcess();
    const backend = new WardenBackend(request, process);

    backend.tick(39_999);
    expect(process.sent).toEqual([]);
    backend.tick(40_000);
    backend.tick(49_999);
    expect(process.sent).toEqual(['stop']);
    backend.tick(50_000);
    expect(process.sent).toEqual(['stop', 'kill']);
    expect(backend.snapshot()).toMatchObject({ stopReason: 'key_expired', isKilled: true });
  });

  test('a soft stop has the grace of its program, and a repeated one postpones nothing', () => {
    const process = fakeProcess();
    const backend = new WardenBackend(request, process);

    backend.stop(stopOf({}), 1_000);
    backend.stop(stopOf({ reason: 'lifetime' }), 3_900);
    backend.tick(3_999);
    expect(process.sent).toEqual(['stop']);
    backend.tick(4_000);

    expect(process.sent).toEqual(['stop', 'kill']);
    expect(backend.snapshot().stopReason).toBe('external');
  });

  test('while it stops for another reason its key may be renewed, and its grace stays the same', () => {
    const backend = new WardenBackend({ ...request, stopGraceMs: 60_000 }, fakeProcess());

    backend.stop(stopOf({}), 35_000);

    expect(
      backend.extend({ leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 }, 35_000),
    ).toBeUndefined();
    expect(backend.tick(50_000)).toBe(false);
  });

  test('once its key is lost no deadline moves, and it has the time from soft to hard', () => {
    const process = fakeProcess();
    const backend = new WardenBackend({ ...request, stopGraceMs: 60_000 }, process);

    backend.stop(stopOf({ isKeyLost: true, reason: 'renewal_refused' }), 10_000);

    expect(backend.extend({ leaseId: 'one', softAtMs: 45_000, hardAtMs: 55_000 }, 10_000)).toBe(
      'stopping',
    );
    backend.tick(19_999);
    expect(process.sent).toEqual(['stop']);
    backend.tick(20_000);
    expect(process.sent).toEqual(['stop', 'kill']);
  });

  test('is gone only when its processes are', () => {
    const process = fakeProcess();
    const backend = new WardenBackend(request, process);

    backend.stop(stopOf({ mode: 'hard' }), 1_000);
    backend.tick(1_100);
    expect(backend.state).toBe('stopping');
    process.end();
    backend.tick(1_200);

    expect(backend.snapshot()).toMatchObject({ state: 'gone', goneAtMs: 1_200 });
  });

  test('has changed when its process is found after its start', () => {
    const process = fakeProcess();
    process.pid = 0;
    const backend = new WardenBackend(request, process);

    expect(backend.tick(1_000)).toBe(false);
    process.pid = 7;

    expect(backend.tick(1_050)).toBe(true);
    expect(backend.tick(1_100)).toBe(false);
  });

  test('C23 a warden that slept past both deadlines asks and kills in one tick', () => {
    const process = fakeProcess();
    const backend = new WardenBackend(request, process);

    backend.tick(3_600_000);

    expect(process.sent).toEqual(['stop', 'kill']);
  });
});

const held: HeldDeadlines = {
  leaseId: 'one',
  softAtMs: 40_000,
  hardAtMs: 50_000,
  hardAfterMs: 50_000,
};

describe('a deadline of the warden', () => {
  test('moves later for the same lease, within the ladder from now', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 30_000)).toBeUndefined();
    expect(extensionProblem(held, offered, 29_900)).toBe('too_far_ahead');
  });

  test('moves also when the agent’s reading of the clock is ahead by one of its steps', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 29_990)).toBeUndefined();
    expect(startProblem({ ...held, ...offered }, 29_990)).toBeUndefined();
  });

  test('is not moved for another lease', () => {
    const offered = { leaseId: 'two', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 30_000)).toBe('other_lease');
  });

  test('never moves back, neither soft nor hard', () => {
    expect(
      extensionProblem(held, { leaseId: 'one', softAtMs: 39_000, hardAtMs: 55_000 }, 30_000),
    ).toBe('not_later');
    expect(
      extensionProblem(held, { leaseId: 'one', softAtMs: 45_000, hardAtMs: 50_000 }, 30_000),
    ).toBe('not_later');
  });

  test('never moves once soft has passed, whether or not a tick has noticed', () => {
    const offered = { leaseId: 'one', softAtMs: 70_000, hardAtMs: 80_000 };

    expect(extensionProblem(held, offered, 40_000)).toBe('stopping');
  });

  test('starts nothing when soft has passed, or when it is of another clock', () => {
    expect(startProblem(held, 0)).toBeUndefined();
    expect(startProblem(held, 40_000)).toBe('too_late');
    expect(startProblem({ ...held, softAtMs: 864_040_000, hardAtMs: 864_050_000 }, 5_000)).toBe(
      'too_far_ahead',
    );
    expect(startProblem({ ...held, softAtMs: 50_000 }, 0)).toBe('out_of_order');
  });
});
