import { readFileSync } from 'node:fs';
import os from 'node:os';
import { KEY_LADDERS } from '@leasehold/keys-core';
import type { TestPodman, TestProcess } from '@leasehold/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import {
  connectReady,
  expectInTurn,
  isAlive,
  startContainerStage,
  startTestEngine,
  type ContainerStage,
} from '../testing/container-stage.ts';
import { DRONE_ID, PATIENT_LADDER } from '../testing/fleet-fixture.ts';
import { anotherThan, connect, type Connected } from '../testing/fleet-steps.ts';
import { until } from '../testing/wait.ts';

/** An engine, a registry and a fleet start beside other tests. */
const START_MS_MAX = 120_000;

const { ttlMs, hardAfterMs } = KEY_LADDERS.fast;
/** From the hard deadline to the expiry, and the time for a kill on a busy machine. */
const SUCCESSION_MS_MAX = 60_000;
/** For what a busy machine starts. */
const START_OF_ONE_MS_MAX = 40_000;

let engine: TestPodman;
beforeAll(async () => {
  engine = await startTestEngine();
}, START_MS_MAX);
afterAll(() => engine[Symbol.asyncDispose]());

interface Scene {
  readonly stage: ContainerStage;
  readonly agent: TestProcess;
  readonly before: Connected;
  readonly containerId: string;
}

/** A drone with one container, which does not stop when it is asked to. */
async function sceneOn(stage: ContainerStage): Promise<Scene> {
  const { agent } = await stage.startDrone({ witness: stubborn(stage) });
  const before = await connectReady(stage);
  const containerId = await stage.containerIdOf(before.backendId);
  await untilWriting(stage, before.backendId);
  return { stage, agent, before, containerId };
}

async function untilWriting(stage: ContainerStage, backendId: string): Promise<void> {
  const isWriting = () => stage.written(backendId).length > 0;
  await until(`${backendId} writes`, isWriting, START_OF_ONE_MS_MAX);
}

function stubborn(stage: ContainerStage): Record<string, unknown> {
  return stage.program({ env: { STUBBORN: '1' } });
}

/** Another drone of the same fleet, which can run the program too. Returns how to end it. */
async function startOther(stage: ContainerStage): Promise<() => Promise<unknown>> {
  const other = await stage.startDrone({ witness: stubborn(stage) }, { droneId: 'drone-2' });
  return () => other.agent.stop(30_000);
}

describe.concurrent('with a container', () => {
  test('F4b an agent that is killed and started again adopts it: the same container, the same token', async ({
    expect,
  }) => {
    await using stage = await startContainerStage({ engine, ladder: PATIENT_LADDER });
    const { agent, before, containerId } = await sceneOn(stage);

    await agent.kill();
    await stage.fleet.drone().startAgent();
    const adoptedAtMs = stage.written(before.backendId).at(-1)?.atMs ?? 0;
    await until(
      'it outlives the grant that it had',
      () =>
        (stage.written(before.backendId).at(-1)?.atMs ?? 0) > adoptedAtMs + PATIENT_LADDER.ttlMs,
      SUCCESSION_MS_MAX,
    );

    const after = await connect(stage.fleet);
    expect(after).toMatchObject({
      spawned: false,
      backendId: before.backendId,
      fencingToken: before.fencingToken,
    });
    expect(await stage.containerIdOf(before.backendId)).toBe(containerId);
    const answer = await fetch(`http://${String(after.address)}/`);
    expect(await answer.json()).toMatchObject({ backendId: before.backendId });
  });

  test('F4b when the agent is killed, the warden kills it at its hard deadline, and no second one starts before', async ({
    expect,
  }) => {
    await using stage = await startContainerStage({ engine, ladder: PATIENT_LADDER });
    const { agent, before, containerId } = await sceneOn(stage);
    const endOther = await startOther(stage);

    await agent.kill();
    const killedAtMs = os.uptime() * 1_000;
    const after = await anotherThan(stage.fleet, before.backendId, {
      limitMs: SUCCESSION_MS_MAX,
    });
    await untilWriting(stage, after.backendId);

    expect(isAlive(containerId)).toBe(false);
    const lines = stage.written(before.backendId);
    expect(lines.map(({ kind }) => kind)).toContain('stop');
    expect((lines.at(-1)?.atMs ?? 0) - killedAtMs).toBeLessThan(PATIENT_LADDER.hardAfterMs + 500);
    expectInTurn(lines, stage.written(after.backendId));
    expect(after.droneId).toBe('drone-2');
    await endOther();
  });

  test('F4c when the warden is killed, it ends at once, is removed, and its key is granted again when it has expired', async ({
    expect,
  }) => {
    await using stage = await startContainerStage({ engine });
    const { before, containerId } = await sceneOn(stage);

    process.kill(stage.fleet.drone().warden().pid, 'SIGKILL');
    await until('the container has ended', () => !isAlive(containerId), ttlMs);
    const after = await anotherThan(stage.fleet, before.backendId, {
      limitMs: SUCCESSION_MS_MAX,
    });

    expect(after.backendId).not.toBe(before.backendId);
    await untilWriting(stage, after.backendId);
    expectInTurn(stage.written(before.backendId), stage.written(after.backendId));
    await until(
      'it is removed',
      async () => (await stage.containersOf(before.backendId)).length === 0,
    );
  });

  test('when agent, warden and guard are killed together, the next agent removes it before it starts another one', async ({
    expect,
  }) => {
    await using stage = await startContainerStage({ engine });
    const { agent, before, containerId } = await sceneOn(stage);

    for (const pid of [guardPidOf(stage), stage.fleet.drone().warden().pid, agent.pid]) {
      process.kill(pid, 'SIGKILL');
    }
    await agent.exited;
    expect(isAlive(containerId)).toBe(true);
    await stage.fleet.drone().startAgent();
    await until('the container has ended', () => !isAlive(containerId), START_OF_ONE_MS_MAX);
    const after = await anotherThan(stage.fleet, before.backendId, {
      limitMs: SUCCESSION_MS_MAX,
    });

    await untilWriting(stage, after.backendId);
    expectInTurn(stage.written(before.backendId), stage.written(after.backendId));
    const left = () => stage.containersOf(before.backendId);
    await until('no container is left of it', async () => (await left()).length === 0);
  });
});

describe.concurrent('with a container on an engine that fails', () => {
  test('that hangs: when the agent is killed too, the warden kills the container at its hard deadline', async ({
    expect,
  }) => {
    await using ofItsOwn = await startTestEngine();
    await using stage = await startContainerStage({ engine: ofItsOwn });
    const { agent, before, containerId } = await sceneOn(stage);

    ofItsOwn.signal('SIGSTOP');
    await agent.kill();
    const killedAtMs = os.uptime() * 1_000;
    await until('the container has ended', () => !isAlive(containerId), ttlMs + 5_000);

    const lines = stage.written(before.backendId);
    expect((lines.at(-1)?.atMs ?? 0) - killedAtMs).toBeLessThan(hardAfterMs + 500);
    ofItsOwn.signal('SIGCONT');
  });

  test('that crashes: the container and its key live on; meanwhile nothing is started, with the reason; its log goes on', async ({
    expect,
  }) => {
    await using ofItsOwn = await startTestEngine();
    await using stage = await startContainerStage({ engine: ofItsOwn, ladder: PATIENT_LADDER });
    const { before, containerId } = await sceneOn(stage);

    ofItsOwn.signal('SIGKILL');
    await until('the drone reports it', async () => (await engineOf(stage))?.problem !== null);
    const other = await stage.fleet.api().keys.connect.mutate({
      key: { name: 'other' },
      spawn: { program: 'witness' },
    });
    await until('it is refused', async () => {
      const { status } = await stage.fleet.api().backends.get.query({
        backendId: other.backendId,
      });
      return status === 'terminated';
    });
    const refused = await stage.fleet.api().backends.get.query({ backendId: other.backendId });
    expect(refused.states.at(-1)?.detail).toMatch(/container engine at .* does not answer/u);

    await ofItsOwn.restart();
    await until(
      'the drone reports that too',
      async () => (await engineOf(stage))?.problem === null,
    );
    const restartedAtMs = stage.written(before.backendId).at(-1)?.atMs ?? 0;
    await until('it writes again', () => {
      return (stage.written(before.backendId).at(-1)?.atMs ?? 0) > restartedAtMs;
    });
    expect(isAlive(containerId)).toBe(true);
    expect(await connect(stage.fleet)).toMatchObject({ backendId: before.backendId });
  });
});

async function engineOf(stage: ContainerStage) {
  const drone = await stage.fleet.api().drones.get.query({ droneId: DRONE_ID });
  return drone.engine;
}

/** The shell that waits for the end of the warden. */
function guardPidOf(stage: ContainerStage): number {
  const children = `/proc/${String(stage.fleet.drone().warden().pid)}/task/${String(stage.fleet.drone().warden().pid)}/children`;
  const pids = readFileSync(children, 'utf8').trim().split(' ').map(Number);
  const guard = pids.find((pid) =>
    readFileSync(`/proc/${String(pid)}/cmdline`, 'utf8').includes('leasehold-guard'),
  );
  if (guard === undefined) throw new Error('the warden has no guard');
  return guard;
}
