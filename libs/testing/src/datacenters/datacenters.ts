import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { newTokenSecret } from '@leasehold/keys-core/access';
import {
  createDatabase,
  findMigrationsDir,
  migrate,
  startEmbeddedPostgres,
  type EmbeddedPostgres,
} from '@leasehold/keys-core/postgres';
import type { TestEtcd } from '../etcd.ts';
import { freePort } from '../network/free-port.ts';
import { openStage, type Stage } from '../stage/stage.ts';
import { waitUntil } from '../wait-until.ts';
import { startEtcdAcross } from './etcd-across.ts';
import { createWideArea, type Cut, type WideArea } from './wide-area.ts';

/** Which datacenters to start. */
export interface DatacentersOptions {
  /** By default `dc1`, `dc2` and `dc3`. Each has a member of etcd, so the number should be odd. */
  readonly names?: readonly string[] | undefined;
  /** How long every byte between two datacenters takes, one way; a round trip takes twice as long. */
  readonly delayMs?: number | undefined;
  /** The PostgreSQL that has the databases of all; by default each has its own, as in real datacenters. */
  readonly clusterUrl?: string | undefined;
  /** Of the console of any of them. */
  readonly consoleOrigin?: string | undefined;
  /** What each drone offers, by default {@link DEMO_PROGRAMS}; null: no drones. */
  readonly programs?: Readonly<Record<string, unknown>> | null | undefined;
  /** Run in place of the apps' own files. */
  readonly entries?: { readonly controller: string; readonly drone: string } | undefined;
  /** More environment for the controller of a datacenter. */
  readonly envOf?: ((name: string) => Readonly<Record<string, string>>) | undefined;
}

/** Datacenters on one machine: as in reality, the lines between them are slow and can break. */
export interface Datacenters {
  readonly names: readonly string[];
  readonly etcd: TestEtcd;
  /** @throws for an unknown name. */
  dc(name: string): Stage;
  /** The datacenter whose member leads etcd; undefined while none does. */
  leader(): Promise<string | undefined>;
  /** How long bytes between datacenters take from now on, one way. */
  delay(delayMs: number): void;
  /** Cuts a datacenter off from all others, by default {@link Cut} `silent`. */
  cut(name: string, how?: Cut): void;
  cutPair(a: string, b: string, how?: Cut): void;
  /** Cuts a datacenter's member of etcd off from the other members, and nothing else. */
  cutMember(name: string): void;
  /** Repairs all lines of a datacenter, or of all datacenters. */
  heal(name?: string): void;
  /** Waits until each datacenter reaches all others, and the reservation store. */
  untilInTouch(): Promise<void>;
  /** The pairs that cannot reach each other. */
  readonly cutPairs: readonly (readonly [string, string])[];
  /** Ends everything, and removes its data. */
  close(): Promise<void>;
}

const ROOM = path.join(import.meta.dirname, '../../../../examples/room-server/server.mjs');
const IN_TOUCH_MS_MAX = 30_000;

/** `room` is a real server; `idle` is a process that does nothing, for when there are many. */
export const DEMO_PROGRAMS: Readonly<Record<string, unknown>> = {
  room: { command: process.execPath, args: [ROOM], readiness: { type: 'tcp' } },
  idle: { command: 'sleep', args: ['infinity'], readiness: { type: 'none' } },
};

/** Starts them, and returns when each answers and knows a leader of etcd. */
export async function startDatacenters(options: DatacentersOptions = {}): Promise<Datacenters> {
  const names = options.names ?? ['dc1', 'dc2', 'dc3'];
  const enders: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    while (enders.length > 0) await enders.pop()?.();
  };
  try {
    const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-datacenters-'));
    enders.push(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
    const area = createWideArea(names, options.delayMs ?? 0);
    enders.push(() => area.close());
    const etcd = await startEtcdAcross(area, names);
    enders.push(() => etcd.stop());
    const wiring = await wire(area, names, etcd);
    const open = async (name: string): Promise<Stage> => {
      const own =
        options.clusterUrl === undefined ? await postgresIn(path.join(folder, name)) : null;
      if (own !== null) enders.push(() => own.stop());
      const drone = { droneId: `drone-${name}`, entry: options.entries?.drone };
      return openStage({
        name,
        datacenter: name,
        port: wiring.portOf(name),
        clusterUrl: options.clusterUrl,
        databaseUrl: own?.url('leasehold'),
        consoleOrigin: options.consoleOrigin,
        entry: options.entries?.controller,
        env: { LEASEHOLD_LOG_LEVEL: 'warn', ...wiring.envOf(name), ...options.envOf?.(name) },
        drones:
          options.programs === null
            ? []
            : [{ ...drone, programs: options.programs ?? DEMO_PROGRAMS }],
      });
    };
    const started = await Promise.allSettled(names.map(open));
    const running = started.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    enders.push(() => Promise.all(running.map((one) => one.close())));
    const failed = started.find((one) => one.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    await Promise.all(running.map(untilInTouch));
    return control({ names, etcd, area, running, close });
  } catch (error) {
    await close();
    throw error;
  }
}

/** Starts a PostgreSQL with a migrated database. */
async function postgresIn(folder: string): Promise<EmbeddedPostgres> {
  const postgres = await startEmbeddedPostgres({
    dataDir: path.join(folder, 'postgres'),
    settings: { max_connections: '100', shared_buffers: '64MB' },
  });
  await createDatabase(postgres.url('leasehold'));
  await migrate(postgres.url('leasehold'), findMigrationsDir());
  return postgres;
}

/** Waits until a datacenter reaches all others: the first attempts were made before the others started. */
async function untilInTouch(datacenter: Stage): Promise<void> {
  const isInTouch = async (): Promise<boolean> => {
    const { items, store } = await datacenter.api('viewer').datacenters.list.query({});
    return store.isReachable && items.every(({ isReachable }) => isReachable);
  };
  await waitUntil(isInTouch, {
    what: `that ${datacenter.datacenter} reaches all others`,
    timeoutMs: IN_TOUCH_MS_MAX,
  });
}

interface Wiring {
  portOf(name: string): number;
  /** A controller's settings for the others and for etcd: its own datacenter's member is the first. */
  envOf(name: string): Readonly<Record<string, string>>;
}

async function wire(area: WideArea, names: readonly string[], etcd: TestEtcd): Promise<Wiring> {
  const ports = await Promise.all(names.map(() => freePort()));
  const portOf = (name: string): number => ports[names.indexOf(name)] ?? 0;
  const memberOf = (name: string): URL => new URL(etcd.endpoints[names.indexOf(name)] ?? '');
  const secretOf = secretsOfPairs();
  const envs = new Map<string, Readonly<Record<string, string>>>();
  for (const name of names) {
    const others = names.filter((other) => other !== name);
    const endpoints = [memberOf(name).origin];
    const peers: string[] = [];
    for (const other of others) {
      const { hostname: host, port } = memberOf(other);
      endpoints.push(await area.lay(name, other, { host, port: Number(port) }));
      const peer = await area.lay(name, other, { host: '127.0.0.1', port: portOf(other) });
      peers.push(`${other}=${peer}`);
    }
    envs.set(name, {
      LEASEHOLD_PEERS: peers.join(','),
      LEASEHOLD_PEER_TOKEN: others.map((other) => `${other}=${secretOf(name, other)}`).join(','),
      LEASEHOLD_ETCD: endpoints.join(','),
    });
  }
  return { portOf, envOf: (name) => envs.get(name) ?? {} };
}

/** One secret for each pair, the same from either side. */
function secretsOfPairs(): (a: string, b: string) => string {
  const secrets = new Map<string, string>();
  return (a, b) => {
    const pair = [a, b].sort().join(' ');
    const secret = secrets.get(pair) ?? newTokenSecret();
    secrets.set(pair, secret);
    return secret;
  };
}

function control(parts: {
  readonly names: readonly string[];
  readonly etcd: TestEtcd;
  readonly area: WideArea;
  readonly running: readonly Stage[];
  readonly close: () => Promise<void>;
}): Datacenters {
  const { names, etcd, area, running, close } = parts;
  const pairs = names.flatMap((a, index) => names.slice(index + 1).map((b) => [a, b] as const));
  const pairsOf = (name?: string): typeof pairs =>
    name === undefined ? pairs : pairs.filter((pair) => pair.includes(name));
  return {
    names,
    etcd,
    dc(name) {
      const found = running.find(({ datacenter }) => datacenter === name);
      if (found === undefined) throw new Error(`there is no datacenter ${name}`);
      return found;
    },
    async leader() {
      const index = await etcd.leader();
      return index === undefined ? undefined : names[index];
    },
    delay: (delayMs) => area.delay(delayMs),
    cut(name, how = 'silent') {
      for (const [a, b] of pairsOf(name)) area.cut(a, b, how);
    },
    cutPair: (a, b, how = 'silent') => area.cut(a, b, how),
    cutMember(name) {
      for (const [a, b] of pairsOf(name)) area.cutDoors(a, b);
    },
    heal(name) {
      for (const [a, b] of pairsOf(name)) area.heal(a, b);
    },
    async untilInTouch() {
      await etcd.waitUntilHealthy();
      await Promise.all(running.map(untilInTouch));
    },
    get cutPairs() {
      return pairs.filter(([a, b]) => area.isCut(a, b));
    },
    close,
  };
}
