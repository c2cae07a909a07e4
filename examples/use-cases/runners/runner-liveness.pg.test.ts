import { describe, expect, test } from 'vitest';
import { RunnerLiveness } from './runner-liveness.ts';
import { startService, type Service } from '../testing/service.ts';

const TTL_MS = 5_000;

function controllerOf({ core }: Service): RunnerLiveness {
  const coordinator = core.coordinator({ holder: 'controllers', principal: 'service' });
  return new RunnerLiveness(coordinator, TTL_MS);
}

async function twoControllers(): Promise<{ service: Service; controllers: RunnerLiveness[] }> {
  const service = await startService('runners/runner-liveness.sql');
  const second = service.join('second');
  return { service, controllers: [service, second].map(controllerOf) };
}

function runners({ sql }: Service): Promise<{ key: string; state: string }[]> {
  return sql('select key, endpoint, state from runner order by key');
}

describe('runner liveness', () => {
  test('a runner is alive from its first message on, at whichever controller receives it', async () => {
    const { service, controllers } = await twoControllers();

    for (const endpoint of ['a:1', 'a:1', 'a:2']) {
      for (const controller of controllers) await controller.heard({ key: 'r1', endpoint });
    }
    const grants = await service.ourSql('select from lease_event');

    expect(await runners(service)).toEqual([{ key: 'r1', endpoint: 'a:2', state: 'alive' }]);
    // Renewed by the controller that received it: there was one grant.
    expect(grants).toHaveLength(1);
  });

  test('a runner that falls silent is marked dead, once, and its neighbours are not', async () => {
    const { service, controllers } = await twoControllers();
    const [first, second] = controllers;
    await first?.heard({ key: 'silent', endpoint: 'a:1' });
    await service.letLeasesExpire();
    await first?.heard({ key: 'alive', endpoint: 'a:2' });

    const reaps = await Promise.all([first?.reap(), second?.reap()]);

    expect(await runners(service)).toMatchObject([
      { key: 'alive', state: 'alive' },
      { key: 'silent', state: 'dead' },
    ]);
    expect(reaps.reduce((sum, reap) => sum + (reap?.calledCount ?? 0), 0)).toBe(1);
  });

  test('a runner that came back before its lease was reaped is not marked dead', async () => {
    const { service, controllers } = await twoControllers();
    const [first, second] = controllers;
    await first?.heard({ key: 'r1', endpoint: 'a:1' });
    await service.letLeasesExpire();
    await second?.heard({ key: 'r1', endpoint: 'a:1' });

    const reap = await first?.reap();

    expect(reap?.calledCount).toBe(1);
    expect(await runners(service)).toMatchObject([{ key: 'r1', state: 'alive' }]);
  });

  test('a dead runner that reports again is alive', async () => {
    const { service, controllers } = await twoControllers();
    const [first] = controllers;
    await first?.heard({ key: 'r1', endpoint: 'a:1' });
    await service.letLeasesExpire();
    await first?.reap();

    await first?.heard({ key: 'r1', endpoint: 'a:9' });

    expect(await runners(service)).toEqual([{ key: 'r1', endpoint: 'a:9', state: 'alive' }]);
  });
});
