import { describe, expect, test } from 'vitest';
import { until } from '../testing/wait.ts';
import { commandOf, startOf } from '../testing/warden-fixture.ts';
import { wardenOf, whileListening } from '../testing/warden-in-process.ts';

/** A launch that is under way until the test ends it, and what became of its process. */
class HeldLaunch {
  readonly events: string[] = [];
  #finish: () => void = () => undefined;
  readonly #finished = new Promise<void>((resolve) => {
    this.#finish = resolve;
  });

  readonly launch = async (): Promise<{
    pid: number;
    exitCode: null;
    signalStop: () => void;
    kill: () => void;
    isGone: () => boolean;
    release: () => void;
  }> => {
    this.events.push('launching');
    await this.#finished;
    return {
      pid: 1,
      exitCode: null,
      signalStop: () => this.events.push('stopped'),
      kill: () => this.events.push('killed'),
      isGone: () => false,
      release: () => this.events.push('released'),
    };
  };

  finish(): void {
    this.#finish();
  }
}

describe('a launch that is under way', () => {
  test('is never released when the next agent takes over, since its list does not have it', async () => {
    const held = new HeldLaunch();
    await whileListening(wardenOf(held.launch), async (socketPath) => {
      const former = await commandOf({ socketPath, secret: 'one' });
      const request = startOf('', { backendId: 'b1' });
      const started = former.start(request).catch(() => 'not started');
      await until('the launch is under way', () => held.events.length > 0);

      const next = await commandOf({ socketPath, secret: 'one' });
      const listed = await next.list();
      held.finish();
      await until('the launch is over', () => held.events.length > 1);

      expect(listed).toEqual([]);
      expect(held.events).toEqual(['launching', 'killed']);
      expect(await started).toBe('not started');
      expect(await next.list()).toEqual([]);
      await expect(next.start(request)).rejects.toThrow('started_before');
      former.close();
      next.close();
    });
  });

  test('is never released when it is stopped', async () => {
    const held = new HeldLaunch();
    const warden = wardenOf(held.launch);
    const started = warden.start(startOf('', { backendId: 'b1' }));

    const stop = { backendId: 'b1', mode: 'soft', reason: 'external', isKeyLost: false } as const;
    expect(warden.stop(stop)).toBe(false);
    held.finish();

    await expect(started).rejects.toThrow('not_wanted_any_more');
    expect(held.events).toEqual(['launching', 'killed']);
  });

  test('is never released when it takes until its soft deadline', async () => {
    let nowMs = 0;
    const held = new HeldLaunch();
    const warden = wardenOf(held.launch, { nowMs: () => nowMs });
    const times = { hardAfterMs: 500, softAtMs: 400, hardAtMs: 500 };
    const started = warden.start(startOf('', { ...times, backendId: 'b1' }));

    nowMs = 400;
    held.finish();

    await expect(started).rejects.toThrow('too_late');
    expect(held.events).toEqual(['launching', 'killed']);
    expect(warden.list()).toEqual([]);
  });
});

test('H-frozen-warden reports when it must act next: for the earliest backend that it has not killed', async () => {
  let nowMs = 0;
  const moments: (number | undefined)[] = [];
  const held = new HeldLaunch();
  held.finish();
  const warden = wardenOf(held.launch, {
    nowMs: () => nowMs,
    onActBy: (atMs) => moments.push(atMs),
  });
  const times = { hardAfterMs: 1_000_000, softToHardMs: 100, leashMs: 25 };
  const late = startOf('', { ...times, backendId: 'late', softAtMs: 900, hardAtMs: 1_000 });
  const early = startOf('', { ...times, backendId: 'early', softAtMs: 400, hardAtMs: 500 });

  await warden.start(late);
  await warden.start(early);
  expect(moments.at(-1)).toBe(525);
  warden.extend([{ backendId: 'early', leaseId: 'lease-one', softAtMs: 1_900, hardAtMs: 2_000 }]);
  expect(moments.at(-1)).toBe(1_025);
  nowMs = 1_000;
  warden.tick(nowMs);

  expect(held.events).toContain('killed');
  expect(moments.at(-1)).toBe(2_025);
});

test('a leash that cannot be told keeps a new program from running, and ends no other', async () => {
  let isFull = false;
  let nowMs = 0;
  const told: (number | undefined)[] = [];
  const problems: string[] = [];
  const first = new HeldLaunch();
  const second = new HeldLaunch();
  const launches = [first, second];
  for (const held of launches) held.finish();
  const warden = wardenOf(() => (launches.shift() ?? second).launch(), {
    nowMs: () => nowMs,
    onActBy: (atMs) => {
      if (isFull) throw new Error('the disk is full');
      told.push(atMs);
    },
    onProblem: (problem) => problems.push(problem),
  });
  const times = { hardAfterMs: 1_000_000, softToHardMs: 100, leashMs: 25 };
  await warden.start(startOf('', { ...times, backendId: 'b1', softAtMs: 900, hardAtMs: 1_000 }));

  isFull = true;
  const refused = warden.start(
    startOf('', { ...times, backendId: 'b2', softAtMs: 400, hardAtMs: 500 }),
  );
  await expect(refused).rejects.toThrow('the disk is full');
  expect(
    warden.extend([{ backendId: 'b1', leaseId: 'lease-one', softAtMs: 1_900, hardAtMs: 2_000 }]),
  ).toEqual([null]);
  for (nowMs = 50; nowMs <= 200; nowMs += 50) warden.tick(nowMs);
  isFull = false;
  warden.tick(nowMs);

  expect(second.events).toEqual(['launching', 'killed']);
  expect(warden.list()).toMatchObject([{ backendId: 'b1', state: 'running' }]);
  expect(problems).toEqual([expect.stringContaining('the disk is full')]);
  expect(told).toEqual([1_025, 2_025]);
});

test('the memory of ids is bounded, and a running backend is never started twice', async () => {
  const held = new HeldLaunch();
  held.finish();
  const warden = wardenOf(held.launch, { seenIdsMax: 2 });
  for (const backendId of ['b1', 'b2', 'b3']) await warden.start(startOf('', { backendId }));

  for (const backendId of ['b1', 'b2', 'b3']) {
    await expect(warden.start(startOf('', { backendId }))).rejects.toThrow('started_before');
  }
  // Refused ones use their ids up like any other; the first of three is forgotten.
  for (const backendId of ['b4', 'b5', 'b6']) {
    await expect(
      warden.start(startOf('', { backendId, softInMs: -1_000, hardInMs: 1_000 })),
    ).rejects.toThrow('too_late');
  }
  await expect(warden.start(startOf('', { backendId: 'b4' }))).resolves.toMatchObject({
    state: 'running',
  });
});

test('a look at processes that fails ends nothing and is told; every backend still has its deadlines', async () => {
  const killed: string[] = [];
  const problems: string[] = [];
  let pid = 0;
  const warden = wardenOf(
    () => {
      pid += 1;
      const name = `process ${String(pid)}`;
      let isFailing = pid === 1;
      const isGone = (): boolean => {
        if (!isFailing) return killed.includes(name);
        isFailing = false;
        throw new Error('EMFILE: too many open files');
      };
      const kill = (): void => void killed.push(name);
      const rest = { signalStop: () => undefined, release: () => undefined };
      return Promise.resolve({ pid, exitCode: null, isGone, kill, ...rest });
    },
    { nowMs: () => 0, onProblem: (problem) => problems.push(problem) },
  );
  const times = { hardAfterMs: 500, softAtMs: 400, hardAtMs: 500 };
  for (const backendId of ['b1', 'b2']) await warden.start(startOf('', { ...times, backendId }));

  warden.tick(500);
  const statesAfterTheLook = warden.list().map(({ state }) => state);
  warden.tick(550);

  expect(problems).toEqual([expect.stringContaining('EMFILE')]);
  expect(killed).toEqual(['process 1', 'process 2']);
  expect(statesAfterTheLook).toEqual(['stopping', 'stopping']);
  expect(warden.list().map(({ state }) => state)).toEqual(['gone', 'gone']);
});
