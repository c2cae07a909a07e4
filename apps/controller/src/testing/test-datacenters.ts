import { createServer, type AddressInfo } from 'node:net';
import { once } from 'node:events';
import { invariant } from '@leasehold/keys-core';
import { newTokenSecret } from '@leasehold/keys-core/store';
import { startFaultProxy, waitUntil, type FaultProxy, type TestEtcd } from '@leasehold/testing';
import type { PeerConfig } from '../peers/peers-config.ts';
import { openTestController, type TestController } from './test-controller.ts';
import { query } from './wire.ts';

/** Datacenters in this process: each with a database of its own, all with one etcd. */
export interface TestDatacenters {
  /** The controller of a datacenter. */
  of(name: string): TestController;
  /** What the others reach a datacenter through. */
  lineTo(name: string): FaultProxy;
  /** Ends the controller of one datacenter, as if it were gone. */
  stop(name: string): Promise<void>;
  /** Starts the controller of one again, on its database and its port. */
  restart(name: string): Promise<void>;
  /** Waits until a datacenter sees another one, or sees that it is away. */
  sees(name: string, other: string, isReachable: boolean): Promise<void>;
  /** Waits until each has heard of all others. */
  allSee(): Promise<void>;
  close(): Promise<void>;
}

export interface TestDatacentersOptions {
  /** Unique in the etcd: a name is a database's for good. */
  readonly names: readonly string[];
  readonly etcd: TestEtcd;
  /** What a datacenter takes for the secret of its pair with another; one for each pair unless said. */
  readonly secretOf?: (name: string, other: string) => string | undefined;
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
      datacenters: { peers: peersOf(name), etcd: { endpoints: etcd.endpoints } },
    });
    opened.set(name, controller);
    databases.set(name, controller.databaseUrl);
    return controller;
  };
  const closing: (() => Promise<void>)[] = [];
  for (const name of names) closing.push((await start(name)).close);
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
    async allSee() {
      for (const name of names) {
        for (const { name: other } of peersOf(name)) await sees(name, other, true);
      }
    },
    stop: (name) => of(name).controller.close(),
    async restart(name) {
      closing.unshift((await start(name)).close);
    },
    async close() {
      for (const close of closing) await close();
      for (const line of lines.values()) await line.close();
    },
  };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
