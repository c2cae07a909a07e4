import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startContainerStage, type ContainerStage } from '../../testing/container-stage.ts';
import { connect, untilOnline } from '../../testing/fleet-steps.ts';
import { until } from '../../testing/wait.ts';

let stage: ContainerStage;
beforeAll(async () => {
  stage = await startContainerStage();
  stage.startDrone({ room: stage.program() });
  await untilOnline(stage.fleet);
});
afterAll(() => stage[Symbol.asyncDispose]());

describe('a backend that is a container', () => {
  test('is started for a key, serves requests, writes its log, and stops when it is asked to', async () => {
    const { fleet } = stage;
    const { backendId, fencingToken, address } = await connect(fleet, { program: 'room' });

    const answer = await fetch(`http://${String(address)}/`);

    expect(await answer.json()).toEqual({ key: 'room', fencingToken, backendId });
    const [container] = await stage.containersOf(backendId);
    expect(container?.Labels).toMatchObject({
      'leasehold.drone': 'drone-1',
      'leasehold.key': 'room',
      'leasehold.fencing-token': fencingToken,
    });
    await fleet.client.api.backends.terminate.mutate({ backendId, mode: 'soft' });
    await until('it is terminated', async () => {
      const backend = await fleet.client.api.backends.get.query({ backendId });
      return backend.status === 'terminated';
    });
    expect(await fleet.client.api.backends.get.query({ backendId })).toMatchObject({
      reason: 'external',
      exitCode: 7,
    });
    expect(stage.written(backendId).map(({ kind }) => kind)).toContain('stop');
    expect(stage.log(backendId, 'stderr')).toBe('to the standard error\n');
    await until('it is removed', async () => (await stage.containersOf(backendId)).length === 0);
  });
});
