/** Servers of PostgreSQL that Patroni runs, with one etcd, and HAProxy in front of them: all real. */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, readlink, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import {
  childrenOf,
  freePort,
  isRunning,
  programFile,
  signalProcess,
  startEtcd,
  waitUntil,
} from '@leasehold/testing/stack';
import { findOldestPostgres } from '../../../../libs/testing/src/postgres/oldest-postgres.ts';
import { giveToPostgres, spawnAsPostgres, type Spawned } from './machine-user.ts';
import {
  HOST,
  nodeSettings,
  proxySettings,
  sharedSettings,
  SUPERUSER,
  type NodePlace,
} from './patroni-settings.ts';

/** An index is that of a node, from 0. */
export interface PatroniCluster {
  /** The address of a database, at whichever node is the primary. */
  url(database: string): string;
  /** Waits until one node is the primary and the other follows it: in step if replication is synchronous. */
  untilWhole(how: { readonly isSynchronous: boolean }): Promise<void>;
  primary(): Promise<number>;
  /** `kill -9` of a node's Patroni and PostgreSQL. */
  kill(index: number): Promise<void>;
  /** Starts a node that was killed. */
  restart(index: number): Promise<void>;
  /** Stops the processes that send the log of this primary: from now on nobody else has what it commits. */
  stopSending(index: number): Promise<void>;
  /** Waits until the other node has what this primary has committed so far. */
  untilSent(index: number): Promise<void>;
  /** One statement at a node, whatever its role. */
  query<Row extends pg.QueryResultRow>(index: number, text: string): Promise<Row[]>;
  /** What the programs have printed. */
  log(): string;
  close(): Promise<void>;
}

const NODES_COUNT = 2;
const READY_MS_MAX = 120_000;
const ANSWER_MS_MAX = 1_000;

/** Starts a cluster without databases. @throws when a program is missing, with what to install. */
export async function startPatroni(): Promise<PatroniCluster> {
  const binDir = path.join(postgresFolder(), 'bin');
  const [patroni, haproxy] = [programFile('patroni', 'patroni'), programFile('haproxy', 'haproxy')];
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-patroni-'));
  await chmod(folder, 0o755);
  const etcd = await startEtcd();
  const password = randomBytes(18).toString('base64url');
  const nodes = await Promise.all(
    Array.from({ length: NODES_COUNT }, (_, index) => placeOf(folder, index)),
  );
  const running = new Map<string, Spawned>();
  const proxyPort = await freePort();

  async function startNode(index: number): Promise<void> {
    const node = nodeAt(nodes, index);
    const file = path.join(node.folder, 'patroni.json');
    running.set(node.name, await spawnAsPostgres([patroni, file], 'TERM'));
  }
  const cluster = control({ nodes, running, password, proxyPort, startNode });
  const close = async (): Promise<void> => {
    for (const index of nodes.keys()) await cluster.kill(index);
    running.get('haproxy')?.child.kill('SIGKILL');
    await etcd.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 10 });
  };
  try {
    for (const node of nodes) {
      const settings = { etcd: new URL(etcd.endpoints[0] ?? '').host, password, binDir };
      const text = nodeSettings(node, { ...settings, isSynchronous: true });
      await writeGiven(path.join(node.folder, 'patroni.json'), text);
    }
    const proxyFile = path.join(folder, 'haproxy.cfg');
    await writeGiven(proxyFile, proxySettings(proxyPort, nodes));
    running.set('haproxy', await spawnAsPostgres([haproxy, '-f', proxyFile], 'KILL'));
    // The first one makes the data, and the others copy it.
    for (const index of nodes.keys()) {
      await startNode(index);
      await waitUntil(() => isInRole(nodeAt(nodes, index), index === 0 ? 'primary' : 'replica'), {
        what: `the start of ${nodeAt(nodes, index).name}`,
        timeoutMs: READY_MS_MAX,
      });
    }
    await cluster.untilWhole({ isSynchronous: true });
    return { ...cluster, close };
  } catch (cause) {
    const said = cluster.log();
    await close();
    throw new Error(`the cluster did not start\n${said}`, { cause });
  }
}

function control(parts: {
  readonly nodes: readonly NodePlace[];
  readonly running: ReadonlyMap<string, Spawned>;
  readonly password: string;
  readonly proxyPort: number;
  readonly startNode: (index: number) => Promise<void>;
}): Omit<PatroniCluster, 'close'> {
  const { nodes, running, password, proxyPort, startNode } = parts;
  const urlAt = (port: number, database: string): string =>
    `postgresql://${SUPERUSER}:${password}@${HOST}:${String(port)}/${database}`;

  const query = <Row extends pg.QueryResultRow>(index: number, text: string): Promise<Row[]> =>
    rowsAt<Row>(urlAt(nodeAt(nodes, index).port, 'postgres'), text);

  async function primary(): Promise<number> {
    return waitUntil(
      async () => {
        const roles = await Promise.all(nodes.map((node) => isInRole(node, 'primary')));
        const index = roles.indexOf(true);
        return index === -1 ? undefined : { index };
      },
      { what: 'a primary', timeoutMs: READY_MS_MAX },
    ).then(({ index }) => index);
  }

  async function isWhole(isSynchronous: boolean): Promise<boolean> {
    const leads = await primary();
    const rows = await query<{ state: string; sync: string }>(
      leads,
      'select state, sync_state as sync from pg_stat_replication',
    );
    const wanted = isSynchronous ? 'sync' : 'async';
    return (
      rows.length === nodes.length - 1 &&
      rows.every((row) => row.state === 'streaming' && row.sync === wanted)
    );
  }

  return {
    url: (database) => urlAt(proxyPort, database),
    primary,
    query,
    async untilWhole({ isSynchronous }) {
      const leads = nodeAt(nodes, await primary());
      const settings = sharedSettings(isSynchronous);
      await fetch(`http://${HOST}:${String(leads.apiPort)}/config`, {
        method: 'PATCH',
        body: JSON.stringify(settings),
      });
      const what = `a cluster that is whole, ${isSynchronous ? '' : 'a'}synchronous`;
      await waitUntil(() => isWhole(isSynchronous), { what, timeoutMs: READY_MS_MAX });
    },
    async kill(index) {
      const node = nodeAt(nodes, index);
      // First, or it would start the server again.
      await killed(running.get(node.name)?.child);
      const pid = await postmasterOf(node);
      if (pid !== undefined) await killTree(pid);
    },
    restart: startNode,
    async untilSent(index) {
      const [now] = await query<{ lsn: string }>(index, 'select pg_current_wal_lsn()::text as lsn');
      const text = `select from pg_stat_replication where flush_lsn >= '${now?.lsn ?? '0/0'}'`;
      await waitUntil(async () => (await query(index, text)).length > 0, {
        what: 'a standby in step',
      });
    },
    async stopSending(index) {
      const rows = await query<{ pid: number }>(index, 'select pid from pg_stat_replication');
      for (const { pid } of rows) process.kill(pid, 'SIGSTOP');
    },
    log: () => [...running].map(([name, one]) => `--- ${name}\n${one.printed()}`).join('\n'),
  };
}

async function rowsAt<Row extends pg.QueryResultRow>(url: string, text: string): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** `kill -9` of a process and its children, all at once, and waits until they are gone. */
async function killTree(root: number): Promise<void> {
  const doomed = [root, ...childrenOf(root)];
  for (const pid of doomed) signalProcess(pid, 'SIGKILL');
  await waitUntil(() => !doomed.some(isRunning), { what: `the end of process ${String(root)}` });
}

async function killed(child: ChildProcess | undefined): Promise<void> {
  if (child?.exitCode !== null || child.signalCode !== null) return;
  child.kill('SIGKILL');
  await once(child, 'exit');
}

function nodeAt(nodes: readonly NodePlace[], index: number): NodePlace {
  const node = nodes[index];
  if (node === undefined) throw new Error(`there is no node ${String(index)}`);
  return node;
}

async function placeOf(folder: string, index: number): Promise<NodePlace> {
  const name = `node${String(index)}`;
  const own = path.join(folder, name);
  await mkdir(own, { mode: 0o700 });
  await giveToPostgres(own);
  const [port, apiPort] = [await freePort(), await freePort()];
  return { name, folder: own, dataDir: path.join(own, 'data'), port, apiPort };
}

async function writeGiven(file: string, text: string): Promise<void> {
  await writeFile(file, text, { mode: 0o600 });
  await giveToPostgres(file);
}

/** What a node's Patroni says of it; a server that does not answer has no role. */
async function isInRole(node: NodePlace, role: 'primary' | 'replica'): Promise<boolean> {
  const signal = AbortSignal.timeout(ANSWER_MS_MAX);
  return fetch(`http://${HOST}:${String(node.apiPort)}/${role}`, { signal }).then(
    (answer) => answer.ok,
    () => false,
  );
}

async function postmasterOf({ dataDir }: NodePlace): Promise<number | undefined> {
  const text = await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(() => '');
  const pid = Number.parseInt(text, 10);
  if (Number.isNaN(pid)) return undefined;
  // The file stays behind when its server is killed, and its number may be another process by now.
  const folder = await readlink(`/proc/${String(pid)}/cwd`).catch(() => undefined);
  return folder === dataDir ? pid : undefined;
}

/** The folder of a PostgreSQL with all of its programs, in `bin`. @throws when none exists, with what to install. */
function postgresFolder(): string {
  const folder = findOldestPostgres();
  if (folder !== undefined) return folder;
  throw new Error(
    'There is no PostgreSQL in /usr/lib/postgresql. Install Debian’s package "postgresql" (15 to 17).',
  );
}
