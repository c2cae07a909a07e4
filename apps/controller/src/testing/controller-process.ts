/** Controllers as they ship, on databases and homes of a test's own. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import {
  createTestDatabase,
  startControllerProcess,
  type ControllerProcess,
} from '@leasehold/testing';
import { onTestFinished } from 'vitest';

/** A home, until the end of the test. */
export async function aFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-controller-'));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  return folder;
}

/** A controller, until the end of the test. */
export async function aController(
  databaseUrl: string,
  home: string,
  env: Readonly<Record<string, string>> = {},
): Promise<ControllerProcess> {
  const controller = await startControllerProcess({ databaseUrl, home, env });
  onTestFinished(() => controller.kill());
  return controller;
}

/** An empty database that is migrated, until the end of the test. */
export async function aDatabase(): Promise<string> {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  return database.url;
}

/** The API, as the administrator whose token is in this home. */
export async function adminOf(
  controller: ControllerProcess,
  home: string,
): Promise<ControllerClient['api']> {
  const credentials = JSON.parse(await readFile(path.join(home, 'credentials.json'), 'utf8')) as {
    admin: string;
  };
  const client = createControllerClient({
    url: controller.url,
    token: credentials.admin,
    transport: 'http',
  });
  return client.api;
}

export function statusOf(
  { url }: ControllerProcess,
  route: '/healthz' | '/readyz',
): Promise<number | undefined> {
  return fetch(`${url}${route}`).then(
    (response) => response.status,
    () => undefined,
  );
}
