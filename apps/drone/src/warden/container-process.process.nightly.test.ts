import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import type { TestPodman } from '@leasehold/testing';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { startTestEngine } from '../testing/container-stage.ts';
import { until } from '../testing/wait.ts';
import { ContainerGuard, GATE_PLACE, gateOf } from './container-guard.ts';
import { ContainerProcess, ContainerRemovals, type ContainerContext } from './container-process.ts';
import { mainProcessOf, processesOf } from './processes.ts';
import type { ContainerStart } from './protocol.ts';

/** An engine, a registry and a fleet start beside other tests. */
const START_MS_MAX = 120_000;

let engine: TestPodman;
let stateDir: string;
let guard: ContainerGuard;
let context: ContainerContext;
beforeAll(async () => {
  engine = await startTestEngine();
  stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-container-'));
  await mkdir(path.join(stateDir, 'logs'));
}, START_MS_MAX);
beforeEach(() => {
  guard = new ContainerGuard({ stateDir, shell: '/bin/sh', onProblem: () => undefined });
  context = {
    stateDir,
    guard,
    logFolder: path.join(stateDir, 'logs'),
    removals: new ContainerRemovals(),
    nowMs: () => os.uptime() * 1_000,
    onProblem: () => undefined,
  };
  return () => guard.close();
});
afterAll(async () => {
  await engine[Symbol.asyncDispose]();
  rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
});

function startOf(script: string): ContainerStart {
  const softInMs = 60_000;
  const backendId = `b-${randomUUID()}`;
  const nowMs = os.uptime() * 1_000;
  return {
    backendId,
    leaseId: 'lease-one',
    program: 'test',
    meta: null,
    softAtMs: nowMs + softInMs,
    hardAtMs: nowMs + softInMs + 1_000,
    hardAfterMs: 100_000,
    softToHardMs: 1_000,
    leashMs: 250,
    stopSignal: 'SIGTERM',
    stopGraceMs: 1_000,
    container: {
      engine: engine.socket,
      name: backendId,
      keyId: backendId,
      memory: '64m',
      create: {
        Image: engine.image,
        Entrypoint: ['/bin/sh', '-c', script],
        HostConfig: {
          NetworkMode: 'host',
          Init: true,
          LogConfig: { Type: 'none' },
          Ulimits: [
            { Name: 'nofile', Soft: 1_024, Hard: 1_024 },
            { Name: 'nproc', Soft: 4_096, Hard: 4_096 },
          ],
          Mounts: [
            {
              Type: 'bind',
              Source: gateOf(stateDir, backendId),
              Target: GATE_PLACE,
              ReadOnly: true,
            },
          ],
        },
      },
    },
  };
}

async function containerIdOf(name: string): Promise<string> {
  return (await engine.podman('inspect', '--format', '{{.Id}}', name)).trim();
}

test('a start that the engine carries out late runs nothing, once the warden has given it up', async () => {
  const request = startOf('exec sleep 600');
  const container = await ContainerProcess.prepare(request, context);
  const containerId = await containerIdOf(request.backendId);
  engine.signal('SIGSTOP');
  const released = container.release();
  expect(container.isGone(), 'gone while the engine may still start it').toBe(false);

  container.kill();
  engine.signal('SIGCONT');
  await released;

  let isSeen = false;
  await until('it is gone', () => {
    isSeen ||= processesOf(containerId).length > 0;
    return container.isGone();
  });
  await until('it is removed', () => context.removals.isDone);
  expect(isSeen).toBe(false);
});

test('C63 a program without a handler stops at its stop signal, although it is in a PID namespace', async () => {
  const request = startOf('exec sleep 600');
  const container = await ContainerProcess.prepare(request, context);
  await container.release();
  const containerId = await containerIdOf(request.backendId);
  expect(container.pid).toBe(mainProcessOf(containerId)?.pid);

  container.signalStop();

  await until('it is gone', () => container.isGone());
  expect(container.exitCode).toBe(143);
  await until('it is removed', () => context.removals.isDone);
});

test('a guard that is killed is replaced, and the next one kills the containers when the warden ends', async () => {
  const request = startOf('exec sleep 600');
  const container = await ContainerProcess.prepare(request, context);
  await container.release();
  const containerId = await containerIdOf(request.backendId);
  const former = guard.pid ?? 0;

  process.kill(former, 'SIGKILL');
  await until('another guard runs', () => guard.pid !== undefined && guard.pid !== former);
  // As the kernel does when the warden ends.
  guard.close();

  await until('the container has ended', () => processesOf(containerId).length === 0);
  await until('it is gone', () => container.isGone());
  expect(container.exitCode).toBe(137);
});
