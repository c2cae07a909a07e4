import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { machineMs } from './stage/machine-time.ts';
import { leashOf, processesOf } from './stage/machine-processes.ts';
import { FaultStage } from './stage/stage.ts';
import { SUCCESSION_MS_MAX, expectUnharmed } from './stage/verdict.ts';

let stage: FaultStage;
beforeAll(async () => {
  stage = await FaultStage.open();
});
afterAll(({}, file) => stage.close(file));

/** A tick of the warden, a signal, and the end of a process on a busy machine. */
const LATE_MS_MAX = 500;

describe('a drone that is suspended as a whole', () => {
  test('F8 past the expiry and continued stops its backends before they act for long, and the new holder notices nothing', async () => {
    const sleeper = await stage.startDrone({ droneId: 'sleep-1', programs: { sleep: 'stubborn' } });
    const former = await stage.connect('sleep', 'sleep');
    await stage.untilHeard(former);
    const formerPids = processesOf(former.backendId);
    const leashPids = leashOf(sleeper.warden().pid);
    await stage.startDrone({ droneId: 'sleep-2', programs: { sleep: 'stubborn' } });

    const atMs = machineMs();
    sleeper.agent.signal('SIGSTOP');
    sleeper.signalWarden('SIGSTOP');
    for (const pid of [...formerPids, ...leashPids]) process.kill(pid, 'SIGSTOP');
    expect(leashPids).toHaveLength(1);
    const next = await stage.successorOf(former, 'sleep');
    const { pids } = await stage.untilHeard(next.answer);
    // The worst order: the process that must not act wakes first, the one that stops it last.
    const wokenAtMs = machineMs();
    for (const pid of formerPids) process.kill(pid, 'SIGCONT');
    sleeper.agent.signal('SIGCONT');
    sleeper.signalWarden('SIGCONT');
    for (const pid of leashPids) process.kill(pid, 'SIGCONT');
    const ended = await stage.untilSilent(former);

    const afterExpiryMs = Math.round(next.atMs - stage.expiryOf(former));
    console.log(
      `drone suspended: the next connect succeeded after ${String(Math.round(next.atMs - atMs))} ms, ${String(afterExpiryMs)} ms after the expiry; the old backend wrote for ${String(Math.max(0, Math.round(ended.lastAtMs - wokenAtMs)))} ms after waking`,
    );
    const heldUpMs = stage.stoodStillMs(stage.expiryOf(former), next.atMs);
    expect(afterExpiryMs - heldUpMs).toBeLessThan(SUCCESSION_MS_MAX);
    const actedMs = ended.lastAtMs - wokenAtMs - stage.stoodStillMs(wokenAtMs, ended.lastAtMs);
    expect(actedMs, 'what a paused process may still do').toBeLessThan(LATE_MS_MAX);
    // A sink that refuses smaller tokens refuses all of it: promise 7.
    expect(BigInt(next.answer.fencingToken)).toBeGreaterThan(ended.token);
    await stage.untilRenewed(next.answer);
    await expectUnharmed(stage, { before: next.answer, program: 'sleep', pids });
    await stage.untilReady('sleep-1');
  });
});
