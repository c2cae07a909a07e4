/**
 * The example on a real container engine, behind a gateway: preview.sh and drone.json as they are, except for an image that
 * is made here of a shell and preview.sh, the machine's network, and a shorter idle time.
 */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import {
  freePort,
  openTestStage,
  startPodman,
  TEST_ULIMITS,
  waitUntil,
  type Stage,
  type TestPodman,
} from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';

const START_MS_MAX = 180_000;
const IDLE_SECONDS = 2;

const textOf = (name: string): string => readFileSync(path.join(import.meta.dirname, name), 'utf8');
const { programs } = JSON.parse(textOf('drone.json')) as { programs: { preview: object } };

let engine: TestPodman;
let builds: Server;
let stage: Stage;
beforeAll(async () => {
  engine = await startPodman({ script: textOf('preview.sh') });
  builds = createServer(({ url }, response) => response.end(`the build ${String(url)}`));
  builds.listen(0, '127.0.0.1');
  await once(builds, 'listening');
  const port = await freePort();
  stage = await openTestStage({
    // No deadline matters here: a busy machine starts a container within it.
    ladder: 'standard',
    env: {
      LEASEHOLD_HEARTBEAT_MS: '700',
      LEASEHOLD_GATEWAY_URL: `http://127.0.0.1:${String(port)}`,
    },
  });
  const preview = {
    ...programs.preview,
    image: engine.image,
    pull: 'never',
    network: 'host',
    containerPort: undefined,
    ulimits: TEST_ULIMITS,
    env: { BUILDS: `http://127.0.0.1:${String((builds.address() as AddressInfo).port)}` },
    idleStopSeconds: IDLE_SECONDS,
  };
  await stage.startDrone({
    droneId: 'machine-1',
    programs: { preview },
    config: { engine: { socket: engine.socket } },
  });
  await stage.startGateway({ port });
}, START_MS_MAX);
afterAll(async () => {
  await stage.close();
  builds.close();
  await engine[Symbol.asyncDispose]();
}, START_MS_MAX);

/** The address of a branch, which CI shows at the merge request. */
async function addressOf(branch: string): Promise<string> {
  const { url } = await stage.api('client').gateway.sign.mutate({
    key: { namespace: 'previews', name: branch },
    access: { user: 'reviewer', mayStart: true },
    spawn: { program: 'preview' },
  });
  return url;
}

async function open(url: string): Promise<{ status: number; text: string }> {
  const response = await fetch(url);
  return { status: response.status, text: await response.text() };
}

async function backendsOf(branch: string) {
  const { items } = await stage.api().backends.list.query({});
  return items.filter(({ key }) => key.name === branch);
}

const containers = (): Promise<string> => engine.podman('ps', '--all', '--quiet');

test('a request wakes the preview of its branch, which sleeps when nobody uses it, until the next request', async () => {
  const url = await addressOf('feature-login');
  expect(await containers()).toBe('');

  const first = await open(url);
  const [running] = await backendsOf('feature-login');

  expect(first).toEqual({ status: 200, text: 'the build /feature-login.html' });
  expect(running).toMatchObject({ status: 'ready', program: 'preview' });
  expect(await containers()).not.toBe('');

  const slept = await waitUntil(async () =>
    (await backendsOf('feature-login')).find(({ status }) => status === 'terminated'),
  );
  await waitUntil(async () => (await containers()) === '');

  expect(slept).toMatchObject({ backendId: running?.backendId, reason: 'idle' });

  const again = await open(url);
  const awake = (await backendsOf('feature-login')).find(({ status }) => status === 'ready');

  expect(again).toEqual(first);
  expect(awake?.backendId).not.toBe(running?.backendId);
});

test('each branch has a container of its own, and its own build', async () => {
  const [one, other] = await Promise.all(['main', 'feature-cart'].map(addressOf));

  const answers = await Promise.all([one, other].map((url) => open(url ?? '')));

  expect(answers.map(({ text }) => text)).toEqual([
    'the build /main.html',
    'the build /feature-cart.html',
  ]);
});
