import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import {
  createTestDatabase,
  startControllerProcess,
  startFaultProxy,
  type ControllerProcess,
  type FaultProxy,
} from '@leasehold/testing';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { createLeasehold, type Leasehold, type LeaseholdOptions } from '../leasehold.ts';

/** A controller process for all tests of a file, and the clients that call it. */
export interface ClientFixture {
  readonly operator: Leasehold;
  readonly aClient: (options?: Partial<LeaseholdOptions>) => Leasehold;
  /** In front of the controller. */
  readonly aProxy: () => Promise<FaultProxy>;
}

export function useController(): ClientFixture {
  let controller: ControllerProcess;
  let token: string;
  let operator: Leasehold;
  const ending: (() => Promise<unknown>)[] = [];

  beforeAll(async () => {
    const home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-client-'));
    const database = await createTestDatabase();
    controller = await startControllerProcess({ databaseUrl: database.url, home });
    const text = await readFile(path.join(home, 'credentials.json'), 'utf8');
    const credentials = JSON.parse(text) as { client: string; operator: string };
    token = credentials.client;
    operator = createLeasehold({ url: controller.url, token: credentials.operator });
    ending.push(
      () => operator.close(),
      () => controller.stop(),
      () => database.drop(),
      () => rm(home, { recursive: true, maxRetries: 10 }),
    );
  });

  afterAll(async () => {
    for (const end of ending) await end();
  });

  function aClient(options: Partial<LeaseholdOptions> = {}): Leasehold {
    const client = createLeasehold({ url: controller.url, token, ...options });
    onTestFinished(() => client.close());
    return client;
  }

  async function aProxy(): Promise<FaultProxy> {
    const proxy = await startFaultProxy({ host: '127.0.0.1', port: controller.port });
    onTestFinished(() => proxy.close().catch(() => undefined));
    return proxy;
  }

  return {
    get operator() {
      return operator;
    },
    aClient,
    aProxy,
  };
}

export const urlOf = (proxy: FaultProxy): string => `http://${proxy.host}:${String(proxy.port)}`;
