import { EventEmitter, once } from 'node:events';
import { invariant, KEY_LADDERS, type Ladder } from '@leasehold/keys-core';
import { newTokenSecret } from '@leasehold/keys-core/access';
import {
  freePort,
  startFaultProxy,
  waitUntil,
  type FaultProxy,
  type TestEtcd,
} from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import { ALONE, type PeerConfig } from '../peers/peers-config.ts';
import { openTestController, type TestController } from './test-controller.ts';
import { query } from './wire.ts';

/** Datacenters in this process: each with a database of its own, all with one etcd. */
export interface TestDatacenters {
  /** The controller of a datacenter. */
  of(name: string): TestController;
  /** The proxy through which the others reach a datacenter. */
  lineTo(name: string): FaultProxy;
  /** Ends the controller of one datacenter, as if it were gone. */
  stop(name: string): Promise<void>;
  /** Starts the controller of one again, on its database and its port. */
  restart(name: string): Promise<void>;
  /** Waits until a datacenter sees another one, or sees that it is unreachable. */
  sees(name: string, other: string, isReachable: boolean): Promise<void>;
  /**
   * Makes a datacenter ask another one until it answers: after a failure it would ask again by itself
   * only after seconds.
   */
  reaches(name: string, other: string): Promise<void>;
  /** Waits until each {@link reaches} all others. */
  allSee(): Promise<void>;
  close(): Promise<void>;
}

export interface TestDatacentersOptions {
  /** Unique in the etcd: a name is a database's permanently. */
  readonly names: readonly string[];
  readonly etcd: TestEtcd;
  /** The secret that a datacenter has for its pair with another; by default both have the same one. */
  readonly secretOf?: (name: string, other: string) => string | undefined;
  /** By default `fast`. */
  readonly ladder?: Ladder;
}

type Open = Awaited<ReturnType<typeof openTestController>>;

/** Starts a controller for each name, which knows all the others. */
export async function openTestDatacenters(
  options: TestDatacentersOptions,
): Promise<TestDatacenters> {
  const { names, etcd } = options;
  const ports = new Map<string, number>();
  const lines = new Map<string, FaultProxy>();
  for (const name of names) {
    const port = await freePort();
    ports.set(name, port);
    lines.set(name, await startFaultProxy({ host: '127.0.0.1', port }));
  }
  const secrets = new Map<string, string>();
  const secretOf = (name: string, other: string): string => {
    const pair = [name, other].sort().join(' ');
    const secret = options.secretOf?.(name, other) ?? secrets.get(pair) ?? newTokenSecret();
    secrets.set(pair, secret);
    return secret;
  };
  const peersOf = (name: string): PeerConfig[] =>
    names
      .filter((other) => other !== name)
      .sort()
      .map((other) => ({
        name: other,
        url: `http://127.0.0.1:${String(lines.get(other)?.port)}`,
        secret: secretOf(name, other),
      }));
  const opened = new Map<string, Open>();
  const databases = new Map<string, string>();
  const start = async (name: string): Promise<Open> => {
    const databaseUrl = databases.get(name);
    const controller = await openTestController({
      ...(databaseUrl === undefined ? {} : { databaseUrl }),
      port: ports.get(name) ?? 0,
      datacenter: name,
      ladder: options.ladder ?? KEY_LADDERS.fast,
      gateway: { url: `https://${name}.example.com`, hosts: null },
      datacenters: { ...ALONE, peers: peersOf(name), etcd: { endpoints: etcd.endpoints } },
    });
    opened.set(name, controller);
    databases.set(name, controller.databaseUrl);
    return controller;
  };
  /** For each datacenter: what closes its controllers, the newest one first. */
  const closing = new Map<string, (() => Promise<void>)[]>();
  const close = async (): Promise<void> => {
    // Before the controllers, which would wait for what is under way over a silent line.
    await Promise.all([...lines.values()].map((line) => line.close()));
    await Promise.all(
      [...closing.values()].map(async (closings) => {
        for (const closeOne of closings) await closeOne();
      }),
    );
  };
  const started = await Promise.allSettled(
    names.map(async (name) => {
      closing.set(name, [(await start(name)).close]);
    }),
  );
  const failed = started.find((one) => one.status === 'rejected');
  if (failed !== undefined) {
    await close();
    throw failed.reason;
  }
  const of = (name: string): Open => {
    const found = opened.get(name);
    invariant(found !== undefined, `there is no datacenter ${name}`);
    return found;
  };
  const sees: TestDatacenters['sees'] = async (name, other, isReachable) => {
    const { secret } = await of(name).token('viewer');
    await waitUntil(
      async () => {
        const { items } = (await query(of(name), 'datacenters.list', { secret })) as {
          items: { name: string; isReachable: boolean; roundTripMs: number | null }[];
        };
        const seen = items.find((item) => item.name === other);
        return seen?.isReachable === isReachable && (!isReachable || seen.roundTripMs !== null);
      },
      { what: `${name} to see ${other}` },
    );
  };
  return {
    of,
    sees,
    lineTo(name) {
      const line = lines.get(name);
      invariant(line !== undefined, `there is no datacenter ${name}`);
      return line;
    },
    reaches: (name, other) => answers(of(name), other),
    async allSee() {
      await Promise.all(
        names.flatMap((name) => peersOf(name).map((other) => answers(of(name), other.name))),
      );
    },
    stop: (name) => of(name).controller.close(),
    async restart(name) {
      closing.get(name)?.unshift((await start(name)).close);
    },
    close,
  };
}

async function answers(on: TestController, other: string): Promise<void> {
  const { secret } = await on.token('viewer');
  const input = { datacenter: other, name: 'asked-for-an-answer' };
  await waitUntil(async () => (await query(on, 'keys.get', { secret, input })) === null, {
    what: `an answer of ${other}`,
  });
}

let worldCount = 0;

export interface TwoDatacenters {
  readonly world: TestDatacenters;
  readonly here: string;
  readonly there: string;
  /** Of an operator here. */
  readonly secret: string;
}

/** Two datacenters whose names the etcd does not know yet. The caller closes their world. */
export async function openTwoDatacenters(
  etcd: TestEtcd,
  secretOf?: (name: string, other: string) => string,
): Promise<TwoDatacenters> {
  worldCount += 1;
  const [here, there] = [`a${String(worldCount)}`, `b${String(worldCount)}`];
  const world = await openTestDatacenters({
    names: [here, there],
    etcd,
    ...(secretOf === undefined ? {} : { secretOf }),
  });
  try {
    if (secretOf === undefined) await world.allSee();
    return { world, here, there, secret: (await world.of(here).token('operator')).secret };
  } catch (error) {
    await world.close();
    throw error;
  }
}

/** For tests that share two datacenters: when this one ends, the other one answers again. */
export function healAfterTest({ world, here, there }: TwoDatacenters): void {
  onTestFinished(async () => {
    world.lineTo(there).heal();
    await world.reaches(here, there);
  });
}

/** Stops the other one until the returned function is called, or the test ends. */
export async function stopForTest({ world, there }: TwoDatacenters): Promise<() => Promise<void>> {
  let restarted: Promise<void> | undefined;
  const restart = (): Promise<void> => {
    restarted ??= world.restart(there);
    return restarted;
  };
  onTestFinished(restart);
  await world.stop(there);
  return restart;
}

/** Blocks whatever needs leases or reservations there, until the returned function is called. */
export async function lockTables(
  world: TestDatacenters,
  name: string,
): Promise<() => Promise<void>> {
  const { general } = world.of(name).controller.store;
  const release = new EventEmitter();
  let ended: Promise<unknown> | undefined;
  await new Promise<void>((resolve, reject) => {
    ended = general.$transaction(async (statements) => {
      await statements.$executeRaw`set local idle_in_transaction_session_timeout = 0`;
      await statements.$executeRaw`lock table lease, reservation in access exclusive mode`;
      const released = once(release, 'now');
      resolve();
      await released;
    });
    ended.catch(reject);
  });
  // Also if the test fails: others may share the datacenter.
  onTestFinished(() => void release.emit('now'));
  return async () => {
    release.emit('now');
    await ended;
  };
}
