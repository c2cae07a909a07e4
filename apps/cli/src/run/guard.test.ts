import { spawn } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import type { CommandEnd, GuardReport } from './guard-protocol.ts';
import { endOf, Guard } from './guard.ts';

/** A guard whose clock and command the test controls. */
function guarded(): {
  readonly guard: Guard;
  readonly reports: GuardReport[];
  readonly signals: string[];
  /** What had been reported when the command began. */
  readonly begun: string[];
  /** Sets the clock, and lets the guard read it. */
  readonly at: (ms: number) => void;
  /** Sets the clock, and the guard does not read it. */
  readonly asleepUntil: (ms: number) => void;
  readonly start: (
    softAtMs?: number,
    hardAtMs?: number,
    isForCommandAlone?: boolean,
  ) => Promise<void>;
  readonly ends: (how: CommandEnd) => Promise<void>;
} {
  const reports: GuardReport[] = [];
  const signals: string[] = [];
  const begun: string[] = [];
  let nowMs = 0;
  let end: (end: CommandEnd) => void = () => undefined;
  const guard = new Guard({
    nowMs: () => nowMs,
    report: (report) => reports.push(report),
    launch: () =>
      Promise.resolve({
        pid: 7,
        begin: () => begun.push(...reports.map(({ type }) => type)),
        signal: (signal: NodeJS.Signals, to: string) =>
          signals.push(to === 'session' ? signal : `${signal} to the ${to}`),
        ended: new Promise<CommandEnd>((resolve) => {
          end = resolve;
        }),
      }),
  });
  return {
    guard,
    reports,
    signals,
    begun,
    at(ms: number) {
      nowMs = ms;
      guard.tick();
    },
    asleepUntil(ms: number) {
      nowMs = ms;
    },
    async start(softAtMs = 100, hardAtMs = 200, isForCommandAlone = false) {
      guard.take({
        type: 'start',
        command: ['job'],
        environment: {},
        deadlines: { softAtMs, hardAtMs },
        isForCommandAlone,
      });
      await settle();
    },
    async ends(how: CommandEnd) {
      end(how);
      await settle();
    },
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('Guard', () => {
  test('sends SIGTERM at the soft deadline and SIGKILL at the hard one, once each', async () => {
    const { start, at, signals } = guarded();
    await start();

    at(99);
    const before = [...signals];
    for (const ms of [100, 150, 200, 250]) at(ms);

    expect(before).toEqual([]);
    expect(signals).toEqual(['SIGTERM', 'SIGCONT', 'SIGKILL']);
  });

  test('for a command alone, only what nobody may escape goes to the whole session', async () => {
    const { guard, start, at, signals } = guarded();
    await start(100, 200, true);

    for (const signal of ['SIGINT', 'SIGSTOP', 'SIGCONT'] as const) {
      guard.take({ type: 'signal', signal });
    }
    at(100);
    at(200);

    expect(signals).toEqual([
      ...['SIGINT to the command', 'SIGSTOP', 'SIGCONT'],
      ...['SIGTERM to the command', 'SIGCONT', 'SIGKILL'],
    ]);
  });

  test('a renewal moves both deadlines', async () => {
    const { guard, start, at, signals } = guarded();
    await start();

    guard.take({ type: 'extend', deadlines: { softAtMs: 300, hardAtMs: 400 } });
    at(299);

    expect(signals).toEqual([]);
  });

  test('earlier deadlines, and any after SIGTERM, are ignored', async () => {
    const { guard, start, at, signals } = guarded();
    await start();

    guard.take({ type: 'extend', deadlines: { softAtMs: 10, hardAtMs: 20 } });
    at(50);
    const early = [...signals];
    at(100);
    guard.take({ type: 'extend', deadlines: { softAtMs: 300, hardAtMs: 400 } });
    at(200);

    expect(early).toEqual([]);
    expect(signals.at(-1)).toBe('SIGKILL');
  });

  test('after a sleep past the deadline the kill comes first, whatever the next order is', async () => {
    const { guard, start, asleepUntil, signals } = guarded();
    await start();

    asleepUntil(900);
    guard.take({ type: 'signal', signal: 'SIGCONT' });
    guard.take({ type: 'extend', deadlines: { softAtMs: 1_000, hardAtMs: 1_100 } });

    expect(signals[0]).toBe('SIGKILL');
  });

  test('an orphaned command is asked to end at once, and killed at its last deadline', async () => {
    const { guard, start, at, signals, reports } = guarded();
    await start();

    const runs = guard.orphaned();
    at(200);

    expect(runs).toBe(true);
    expect(signals).toEqual(['SIGTERM', 'SIGCONT', 'SIGKILL']);
    expect(reports).toContainEqual({ type: 'stopping', kind: 'soft', cause: 'orphaned' });
  });

  test('a command is not started after its deadline', async () => {
    const { start, asleepUntil, reports } = guarded();
    asleepUntil(100);

    await start();

    expect(reports).toEqual([
      { type: 'not_started', problem: expect.stringContaining('had expired') as string },
    ]);
  });

  test('a stop that comes while the command is being started kills it', async () => {
    const { guard, start, signals } = guarded();

    const starting = start();
    guard.take({ type: 'stop', kind: 'hard' });
    await starting;

    expect(signals).toContain('SIGKILL');
  });

  test('a signal that comes while the command is being started reaches it', async () => {
    const { guard, start, signals } = guarded();

    const starting = start();
    guard.take({ type: 'signal', signal: 'SIGINT' });
    await starting;

    expect(signals).toEqual(['SIGINT']);
  });

  test('lets the command begin when the command line has been told of it, so that it can end it', async () => {
    const { start, begun } = guarded();

    await start();

    expect(begun).toEqual(['started']);
  });

  test('reports how the command ended, and then guards nothing', async () => {
    const { guard, start, ends, at, signals, reports } = guarded();
    await start();

    await ends({ exitCode: 3, signal: null });
    at(500);

    expect(reports.at(-1)).toEqual({ type: 'ended', atMs: 0, exitCode: 3, signal: null });
    expect(signals).toEqual([]);
    expect(guard.orphaned()).toBe(false);
  });
});

test('a signal that the system refuses to send to a command is not its end', async () => {
  const child = spawn('sh', ['-c', 'read -r line; exit 3'], { detached: true });
  const ended = endOf(child, child.pid ?? 0);

  // What `child.kill` does for the process of another user. The user of the tests may signal this one.
  child.emit('error', new Error('kill EPERM'));
  child.stdin.end('go\n');

  expect(await ended).toEqual({ exitCode: 3, signal: null });
});
