import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createControllerClient, type ControllerClient } from '@leasehold/client';
import {
  FAIR_USE_CONFIG_DEFAULTS,
  HEARTBEAT_MS,
  KEY_LADDERS,
  type FairUseConfig,
  type IdSource,
  type Ladder,
  type Role,
} from '@leasehold/keys-core';
import { insertToken, newTokenSecret, type NewToken } from '@leasehold/keys-core/access';
import type { GatewayAddresses } from '@leasehold/keys-core/gateway';
import { createBootClock, createLogger, systemIds, type Logger } from '@leasehold/service-kit';
import { createTestDatabase, type TestDatabase } from '@leasehold/testing';
import { afterAll, beforeAll, onTestFinished } from 'vitest';
import { startController, type Controller } from '../compose.ts';
import type { SendingTimes } from '../http/http-server.ts';
import type { DatacentersConfig } from '../peers/peers-config.ts';
import { SIGN_IN_DEFAULTS, type SignInConfig } from '../sign-in/sign-in-config.ts';
import type { WebhookConfig } from '../webhook.ts';

/** A controller in this process, on a database of its own, and ways to call it. */
export interface TestController {
  readonly controller: Controller;
  readonly url: string;
  readonly databaseUrl: string;
  /** The secret of a new token. */
  token(role: Role, limits?: Partial<NewToken>): Promise<{ tokenId: string; secret: string }>;
  /** A client with a new token of this role; a drone's is `d1`. */
  client(role: Role, transport?: 'ws' | 'http'): Promise<ControllerClient['api']>;
}

interface TestControllerOptions {
  readonly databaseUrl?: string;
  /** Its own database is a copy of this one, which nobody uses. */
  readonly copyOf?: TestDatabase;
  readonly port?: number;
  readonly log?: Logger;
  readonly ids?: IdSource;
  readonly signIn?: Partial<SignInConfig>;
  readonly datacenter?: string;
  readonly datacenters?: DatacentersConfig;
  readonly fairUse?: FairUseConfig;
  readonly isReadingAudited?: boolean;
  readonly webhook?: WebhookConfig;
  readonly gateway?: GatewayAddresses;
  readonly sendingTimes?: SendingTimes;
  /** By default `fast`: a test whose keys must not run out takes another one. */
  readonly ladder?: Ladder;
}

/** Not the default, so that it shows where the configured time counts. */
export const ENVIRONMENT_LEASE_MS = 90_000;

/** The closing controllers of tests that are over. */
const closing: Promise<unknown>[] = [];

afterAll(async () => {
  await Promise.all(closing);
});

/**
 * Starts a controller; it is closed when the test ends. The next test does not wait for that, unless the
 * database is not the controller's own.
 */
export async function startTestController(
  options: TestControllerOptions = {},
): Promise<TestController> {
  const { close, ...started } = await openTestController(options);
  onTestFinished(async () => {
    const closed = close();
    closing.push(closed);
    if (options.databaseUrl !== undefined) await closed;
  });
  return started;
}

/** As {@link startTestController}, for several tests that do not affect one another. */
export async function openTestController(
  options: TestControllerOptions = {},
): Promise<TestController & { readonly close: () => Promise<void> }> {
  const ending: (() => Promise<unknown>)[] = [];
  const databaseUrl = options.databaseUrl ?? (await ownDatabase(ending, options.copyOf));
  const home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-controller-'));
  ending.unshift(() => rm(home, { recursive: true, maxRetries: 10 }));
  const close = async (): Promise<void> => {
    for (const end of ending) await end();
  };
  const controller = await startController(
    {
      firstToken: null,
      databaseUrl,
      home,
      host: '127.0.0.1',
      port: options.port ?? 0,
      datacenter: options.datacenter ?? 'local',
      datacenters: options.datacenters,
      webhook: options.webhook ?? null,
      gateway: options.gateway ?? { url: null, hosts: null },
      settings: [],
      ladder: options.ladder ?? KEY_LADDERS.fast,
      // A test drone sends one heartbeat, which lasts 21 s: enough where everything is slow.
      heartbeatMs: HEARTBEAT_MS.standard,
      environmentLeaseMs: ENVIRONMENT_LEASE_MS,
      isReadingAudited: options.isReadingAudited ?? false,
      retentionDays: 30,
      logLevel: 'silent',
      signIn: { ...SIGN_IN_DEFAULTS, ...options.signIn },
      fairUse: options.fairUse ?? FAIR_USE_CONFIG_DEFAULTS,
    },
    {
      clock: createBootClock(),
      ids: options.ids ?? systemIds(),
      log: options.log ?? createLogger({ name: 'controller', level: 'silent' }),
      sendingTimes: options.sendingTimes,
    },
  ).catch(async (error: unknown) => {
    await close();
    throw error;
  });
  ending.unshift(() => controller.close());

  const token: TestController['token'] = async (role, limits = {}) => {
    const made = { tokenId: randomUUID(), secret: newTokenSecret() };
    await insertToken(controller.store.general, {
      ...made,
      name: `test ${role}`,
      role,
      namespaces: null,
      droneId: role === 'drone' ? 'd1' : null,
      createdBy: 'test',
      expiresAt: null,
      ...limits,
    });
    return made;
  };

  return {
    controller,
    url: controller.url,
    databaseUrl,
    token,
    async client(role, transport = 'http') {
      const { secret } = await token(role);
      const client = createControllerClient({ url: controller.url, token: secret, transport });
      onTestFinished(() => client.close());
      return client.api;
    },
    close,
  };
}

/**
 * Opens a controller before the tests of the file or `describe` that calls this, and closes it after them. `use`
 * takes it, and prepares what the tests need there.
 */
export function shareTestController(
  use: (shared: TestController) => void | Promise<void>,
  options: TestControllerOptions = {},
): void {
  let close: (() => Promise<void>) | undefined;
  beforeAll(async () => {
    const { close: end, ...shared } = await openTestController(options);
    close = end;
    await use(shared);
  });
  // Vitest does not call what a hook returns if another hook fails.
  afterAll(() => close?.());
}

async function ownDatabase(
  ending: (() => Promise<unknown>)[],
  copyOf?: TestDatabase,
): Promise<string> {
  const database = await createTestDatabase(copyOf);
  ending.unshift(() => database.drop());
  return database.url;
}
