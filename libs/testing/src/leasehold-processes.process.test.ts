import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient } from '@leasehold/client';
import { bootstrapCredentials, type Credentials } from '@leasehold/keys-core/access';
import { openStore } from '@leasehold/keys-core/postgres';
import { createBootClock, systemIds } from '@leasehold/service-kit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  startControllerProcess,
  startDroneProcess,
  type ControllerProcess,
  type DroneProcess,
} from './leasehold-processes.ts';
import type { TestDatabase } from './postgres/template-copy.ts';
import { createTestDatabase } from './postgres/test-database.ts';

let home: string;
let database: TestDatabase;
let credentials: Credentials;
let controller: ControllerProcess;
let drone: DroneProcess;

beforeAll(async () => {
  home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-processes-'));
  database = await createTestDatabase();
  const store = openStore({
    databaseUrl: database.url,
    datacenter: 'local',
    clock: createBootClock(),
    ids: systemIds(),
  });
  credentials = await bootstrapCredentials(store, path.join(home, 'credentials.json'), {
    droneIds: ['d1'],
  });
  await store.close();
  controller = await startControllerProcess({ databaseUrl: database.url, home });
  drone = await startDroneProcess({
    droneId: 'd1',
    home,
    controllerUrls: [controller.url],
    token: credentials.drone,
    programs: { idle: { command: '/bin/sleep', args: ['1000'], readiness: { type: 'tcp' } } },
  });
});

afterAll(async () => {
  await drone.stop();
  await controller.stop();
  await database.drop();
  await rm(home, { recursive: true, force: true, maxRetries: 10 });
});

test('a controller and a drone run as they ship, and end when they are asked', async () => {
  const client = createControllerClient({
    url: controller.url,
    token: credentials.viewer,
    transport: 'http',
  });

  const drones = await client.api.drones.list.query({});
  await client.close();

  expect(drones).toMatchObject({ items: [{ droneId: 'd1' }] });
  expect(await drone.wardenPid()).toBeGreaterThan(1);
  expect(await drone.stop()).toBe(0);
  expect(await controller.stop()).toBe(0);
});
