import { spawn, type ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort } from './network/free-port.ts';
import { programFile } from './program-file.ts';
import { waitUntil } from './wait-until.ts';

/** Files of certificates, as PEM. Clients must use TLS; members do not use it among themselves. */
export interface EtcdTls {
  readonly caFile: string;
  readonly certFile: string;
  readonly keyFile: string;
}

export interface EtcdOptions {
  /** How many members; by default one. */
  readonly membersCount?: number | undefined;
  /**
   * The URL by which the other members reach a member, such as a proxy's instead of its own. Called
   * once for each, in order, before any of them is started. Every request between members carries
   * the header `X-PeerURLs`, the URL of its sender as returned here, so that a proxy in front of a
   * member can tell the others apart.
   */
  readonly peerUrlOf?:
    | ((index: number, listen: { readonly host: string; readonly port: number }) => Promise<string>)
    | undefined;
  /** Serves clients over TLS alone, and takes only those with a certificate of the CA. */
  readonly tls?: EtcdTls | undefined;
}

/** Real `etcd` processes of a test's own. An index is that of a member, from 0. */
export interface TestEtcd {
  /** Where clients find the members, in the order of their indexes. */
  readonly endpoints: readonly string[];
  /** `kill -9`, and waits until it is gone. */
  kill(index: number): Promise<void>;
  /** Starts a killed member on its own data, and waits until it answers. */
  restart(index: number): Promise<void>;
  /**
   * Stops a member with `SIGSTOP`: it is there but silent. Waits until each of its threads has
   * stopped: only one of them receives the signal, and on a busy machine the others answer meanwhile.
   */
  freeze(index: number): Promise<void>;
  /** Lets a frozen member continue. */
  thaw(index: number): void;
  /** Whether a member answers and knows a leader. */
  isHealthy(index: number): Promise<boolean>;
  /** The member that reports that it leads; undefined while none does. */
  leader(): Promise<number | undefined>;
  /** Waits until every member that runs knows a leader. */
  waitUntilHealthy(): Promise<void>;
  /**
   * Takes a backup, for which all members are stopped and started again. @returns a function that puts
   * it back in the same way: what was written since is lost, and nothing else shows that.
   */
  backUp(): Promise<() => Promise<void>>;
  /** Ends all members and removes their data. */
  stop(): Promise<void>;
}

interface Member {
  readonly args: readonly string[];
  readonly healthUrl: string;
  child: ChildProcess | undefined;
  said: string;
}

const HOST = '127.0.0.1';
const READY_TIMEOUT_MS = 30_000;
const ANSWER_TIMEOUT_MS = 1_000;
const SAID_CHARS_MAX = 4_000;

/** Starts an etcd of one member or of several, and waits until it takes writes. */
export async function startEtcd(options: EtcdOptions = {}): Promise<TestEtcd> {
  const file = programFile('etcd', 'etcd-server');
  const folder = await mkdtemp(path.join(tmpdir(), 'leasehold-etcd-'));
  const { endpoints, members } = await plan(folder, options);

  async function launch(member: Member): Promise<void> {
    // Ended with the process that runs the tests, however that ends.
    member.child = spawn('setpriv', ['--pdeathsig', 'KILL', '--', file, ...member.args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    member.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      member.said = (member.said + text).slice(-SAID_CHARS_MAX);
    });
    await once(member.child, 'spawn');
  }
  const etcd = controlOf({ endpoints, members, launch, folder });
  try {
    await Promise.all(members.map(launch));
    await etcd.waitUntilHealthy();
  } catch (cause) {
    await etcd.stop();
    const said = members.map((member) => member.said).join('\n');
    throw new Error(`etcd did not start\n${said}`, { cause });
  }
  return etcd;
}

function controlOf(parts: {
  readonly endpoints: readonly string[];
  readonly members: readonly Member[];
  readonly launch: (member: Member) => Promise<void>;
  readonly folder: string;
}): TestEtcd {
  const { endpoints, members, launch, folder } = parts;

  function memberAt(index: number): Member {
    const member = members[index];
    if (member === undefined) throw new Error(`etcd has no member ${String(index)}`);
    return member;
  }

  async function end(member: Member): Promise<void> {
    const { child } = member;
    member.child = undefined;
    if (child?.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  async function isHealthy(index: number): Promise<boolean> {
    const text = await ask(memberAt(index), '/health');
    return text !== undefined && (JSON.parse(text) as { health?: string }).health === 'true';
  }

  async function waitUntilHealthy(): Promise<void> {
    const running = members.flatMap(({ child }, index) => (child === undefined ? [] : [index]));
    await waitUntil(async () => (await Promise.all(running.map(isHealthy))).every(Boolean), {
      timeoutMs: READY_TIMEOUT_MS,
      what: 'every member of etcd knows a leader',
    });
  }

  async function whileStopped(work: () => Promise<void>): Promise<void> {
    await Promise.all(members.map(end));
    await work();
    await Promise.all(members.map(launch));
    await waitUntilHealthy();
  }

  return {
    endpoints,
    isHealthy,
    waitUntilHealthy,
    async backUp() {
      const backup = path.join(folder, 'backup');
      const all = members.map((_, index) => String(index));
      await whileStopped(async () => {
        for (const one of all) await copyFolder(path.join(folder, one), path.join(backup, one));
      });
      return () =>
        whileStopped(async () => {
          for (const one of all) await copyFolder(path.join(backup, one), path.join(folder, one));
        });
    },
    kill: (index) => end(memberAt(index)),
    async restart(index) {
      const member = memberAt(index);
      await end(member);
      await launch(member);
      await waitUntil(async () => (await ask(member, '/metrics')) !== undefined, {
        timeoutMs: READY_TIMEOUT_MS,
        what: `etcd's member ${String(index)} answers`,
      });
    },
    async freeze(index) {
      const { child } = memberAt(index);
      child?.kill('SIGSTOP');
      await waitUntil(() => isStopped(child?.pid ?? 0), {
        pollMs: 1,
        what: `every thread of etcd's member ${String(index)} has stopped`,
      });
    },
    thaw(index) {
      memberAt(index).child?.kill('SIGCONT');
    },
    async leader() {
      const metrics = await Promise.all(members.map((member) => ask(member, '/metrics')));
      const index = metrics.findIndex((text) => text?.includes('\netcd_server_is_leader 1\n'));
      return index === -1 ? undefined : index;
    },
    async stop() {
      await Promise.all(members.map(end));
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

/** Whether no thread of a process runs, as Linux reports it. */
async function isStopped(pid: number): Promise<boolean> {
  const folder = `/proc/${String(pid)}/task`;
  const threads = await Promise.all(
    (await readdir(folder)).map((id) => readFile(path.join(folder, id, 'status'), 'utf8')),
  );
  return threads.length > 0 && threads.every((text) => /^State:\tT/m.test(text));
}

async function copyFolder(from: string, to: string): Promise<void> {
  await rm(to, { recursive: true, force: true, maxRetries: 10 });
  await cp(from, to, { recursive: true });
}

/** What a member reports about itself, over plain HTTP even if its clients must use TLS. */
async function ask(member: Member, about: '/health' | '/metrics'): Promise<string | undefined> {
  if (member.child === undefined) return undefined;
  const signal = AbortSignal.timeout(ANSWER_TIMEOUT_MS);
  return fetch(member.healthUrl + about, { signal }).then(
    (answer) => answer.text(),
    () => undefined,
  );
}

async function plan(
  folder: string,
  { membersCount = 1, peerUrlOf, tls }: EtcdOptions,
): Promise<{ endpoints: string[]; members: Member[] }> {
  const places: { clientUrl: string; healthUrl: string; listenUrl: string; peerUrl: string }[] = [];
  for (let index = 0; index < membersCount; index += 1) {
    const port = await freePort();
    const listenUrl = `http://${HOST}:${String(port)}`;
    places.push({
      listenUrl,
      peerUrl: (await peerUrlOf?.(index, { host: HOST, port })) ?? listenUrl,
      clientUrl: `${tls === undefined ? 'http' : 'https'}://${HOST}:${String(await freePort())}`,
      healthUrl: `http://${HOST}:${String(await freePort())}`,
    });
  }
  const everyone = places
    .map(({ peerUrl }, index) => `member${String(index)}=${peerUrl}`)
    .join(',');
  const token = randomBytes(8).toString('hex');
  const members = places.map(({ clientUrl, healthUrl, listenUrl, peerUrl }, index) => ({
    healthUrl,
    child: undefined,
    said: '',
    args: [
      '--name',
      `member${String(index)}`,
      '--logger',
      'zap',
      '--log-level',
      'error',
      '--data-dir',
      path.join(folder, String(index)),
      '--listen-metrics-urls',
      healthUrl,
      '--listen-client-urls',
      clientUrl,
      '--advertise-client-urls',
      clientUrl,
      '--listen-peer-urls',
      listenUrl,
      '--initial-advertise-peer-urls',
      peerUrl,
      '--initial-cluster',
      everyone,
      '--initial-cluster-token',
      token,
      ...(tls === undefined ? [] : tlsArgs(tls)),
    ],
  }));
  return { endpoints: places.map(({ clientUrl }) => clientUrl), members };
}

function tlsArgs({ caFile, certFile, keyFile }: EtcdTls): string[] {
  const files = ['--cert-file', certFile, '--key-file', keyFile, '--trusted-ca-file', caFile];
  return [...files, '--client-cert-auth'];
}
