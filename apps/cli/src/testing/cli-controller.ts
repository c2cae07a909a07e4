import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createControllerClient, type ControllerApi } from '@leasehold/client';
import {
  createTestDatabase,
  startControllerProcess,
  startFaultProxy,
  type ControllerProcess,
  type FaultProxy,
} from '@leasehold/testing';
import type { AcquireAnswer } from '@leasehold/keys-core/leases';
import { expect } from 'vitest';
import { runCommand, startCommand, type Ended, type Started } from './command-line.ts';

/** A controller as it ships, and the command line that talks to it. */
export interface CliController {
  readonly controller: ControllerProcess;
  /** The controller's database. */
  readonly databaseUrl: string;
  /** Between the command line and the controller. */
  readonly proxy: FaultProxy;
  /** What a command is started with. */
  readonly env: Record<string, string>;
  /** As an administrator, past the proxy. */
  readonly api: ControllerApi;
  /** Runs `leasehold …` to its end. */
  readonly run: (...args: string[]) => Promise<Ended>;
  readonly start: (...args: string[]) => Started;
  /** As {@link start}, with a standard input. */
  readonly startWith: (input: string, ...args: string[]) => Started;
  /** What `leasehold … --json` answers. */
  readonly answer: <Value>(...args: string[]) => Promise<Value>;
  /** The exit code and the error code of a refused `leasehold --json …`. */
  readonly refused: (...args: string[]) => Promise<{ exitCode: number | null; code: string }>;
  readonly close: () => Promise<void>;
}

/**
 * Starts a controller on a database of its own, after `prepare` was done to it. The caller that starts it
 * closes it.
 */
export async function startCliController(
  controllerEnv: Readonly<Record<string, string>> = {},
  prepare?: (databaseUrl: string) => Promise<void>,
): Promise<CliController> {
  const home = await mkdtemp(join(tmpdir(), 'leasehold-cli-'));
  const database = await createTestDatabase();
  await prepare?.(database.url);
  const controller = await startControllerProcess({
    databaseUrl: database.url,
    home,
    env: controllerEnv,
  });
  const proxy = await startFaultProxy({ host: '127.0.0.1', port: controller.port });
  const credentials = JSON.parse(await readFile(join(home, 'credentials.json'), 'utf8')) as {
    admin: string;
  };
  const token = credentials.admin;
  const client = createControllerClient({ url: controller.url, token, transport: 'http' });
  const env = {
    LEASEHOLD_HOME: home,
    LEASEHOLD_URL: `http://${proxy.host}:${String(proxy.port)}`,
    LEASEHOLD_TOKEN: token,
  };
  return {
    controller,
    databaseUrl: database.url,
    proxy,
    env,
    api: client.api,
    run: (...args) => runCommand(args, env),
    start: (...args) => startCommand(args, env),
    startWith: (input, ...args) => startCommand(args, env, { input }),
    async answer<Value>(...args: string[]) {
      const ended = await runCommand([...args, '--json'], env);
      expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
      return JSON.parse(ended.stdout) as Value;
    },
    async refused(...args) {
      const { exitCode, stdout, stderr } = await runCommand(['--json', ...args], env);
      expect(stdout).toBe('');
      return { exitCode, code: (JSON.parse(stderr) as { error: { code: string } }).error.code };
    },
    async close() {
      await client.close();
      await proxy.close();
      await controller.stop();
      await database.drop();
      await rm(home, { recursive: true, maxRetries: 10 });
    },
  };
}

/** Takes a lease for half a minute, and never renews it. */
export async function heldLease(
  api: ControllerApi,
  namespace: string[],
  key: string,
): Promise<Extract<AcquireAnswer, { outcome: 'granted' }>['lease']> {
  const answer = await api.leases.acquire.mutate({
    ...{ namespace, key, ttlMs: 30_000, localTimeMs: 0, holder: 'worker-1', comment: 'for tests' },
  });
  if (answer.outcome !== 'granted') throw new Error(`${key} is held by ${answer.by}`);
  return answer.lease;
}
