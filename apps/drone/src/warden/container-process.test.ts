import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startOf } from '../testing/warden-fixture.ts';
import { until } from '../testing/wait.ts';
import { ContainerGuard } from './container-guard.ts';
import { ContainerProcess, ContainerRemovals } from './container-process.ts';

/** As engines make them: what dies with a container is looked for by this, among all processes of the machine. */
const CONTAINER_ID = randomBytes(32).toString('hex');

/** An engine that makes and removes containers, and does not send their output. */
async function engineIn(folder: string, id = CONTAINER_ID): Promise<string> {
  const socket = path.join(folder, 'engine.sock');
  const answers: Readonly<Record<string, number>> = { create: 201, attach: 500 };
  const server = http.createServer((request, response) => {
    const [, word = ''] = /(create|attach)/u.exec(request.url ?? '') ?? [];
    response.writeHead(answers[word] ?? 204, { 'content-type': 'application/json' });
    response.end(word === '' ? undefined : JSON.stringify({ Id: id, message: 'it is busy' }));
  });
  await once(server.listen(socket), 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return socket;
}

/** The files of a folder that this process has open. */
function openFilesIn(folder: string): string[] {
  return readdirSync('/proc/self/fd').flatMap((name) => {
    try {
      const file = readlinkSync(`/proc/self/fd/${name}`);
      return file.startsWith(folder) ? [file] : [];
    } catch {
      return []; // closed meanwhile
    }
  });
}

async function startContainer(id?: string) {
  const stateDir = mkdtempSync(path.join(os.tmpdir(), 'lh-container-'));
  const logFolder = path.join(stateDir, 'logs');
  mkdirSync(logFolder);
  const guard = new ContainerGuard({ stateDir, shell: '/bin/sh', onProblem: () => undefined });
  onTestFinished(() => {
    guard.close();
    rmSync(stateDir, { recursive: true, force: true, maxRetries: 10 });
  });
  const removals = new ContainerRemovals();
  const nowMs = (): number => os.uptime() * 1_000;
  const context = { stateDir, logFolder, guard, removals, nowMs, onProblem: () => undefined };
  const engine = await engineIn(stateDir, id);
  const container = { engine, name: 'one', keyId: 'key', memory: '1g', create: {} };
  const preparing = ContainerProcess.prepare({ ...startOf(''), container }, context);
  return { logFolder, removals, preparing };
}

test('a container that is made and never started leaves no file of its output open', async () => {
  const { logFolder, removals, preparing } = await startContainer();

  await expect(preparing).rejects.toThrow('it is busy');
  await until('its file is closed', () => openFilesIn(logFolder).length === 0);
  await until('it is removed', () => removals.isDone);
  expect(readdirSync(logFolder)).toHaveLength(1);
});

test('an id that other processes may have in the names of their control groups is refused', async () => {
  const { preparing } = await startContainer('c1');

  await expect(preparing).rejects.toThrow(
    'the engine gave a container the id "c1", which is not a hash',
  );
});
