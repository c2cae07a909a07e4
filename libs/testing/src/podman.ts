/**
 * A real container engine for tests: Podman's service, in a mount namespace of its own, with all that it
 * keeps in a temporary folder.
 */
import { execFile, spawn } from 'node:child_process';
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { isRunning } from './machine-processes.ts';
import { waitUntil } from './wait-until.ts';

const run = promisify(execFile);
const START_MS_MAX = 30_000;
const FOLDER = 'lh-podman-';
/** The process of the tests whose engine it is. */
const OWNER = 'owner';
// Where the kernel has both versions of control groups, the runtime refuses to choose.
const PREPARE = 'umount /sys/fs/cgroup/unified 2>/dev/null;';
const BUSYBOX = '/bin/busybox';
const APPLETS = [
  'cat',
  'env',
  'httpd',
  'id',
  'kill',
  'mkdir',
  'mount',
  'nc',
  'sh',
  'sleep',
  'touch',
  'wget',
];

/** Limits that a machine without CAP_SYS_RESOURCE can give: Podman's own defaults are higher. */
export const TEST_ULIMITS = { nofile: 1_024, nproc: 4_096 } as const;

/** A container engine with an image of its own. */
export interface TestPodman extends AsyncDisposable {
  readonly socket: string;
  /** The name of the image, which has a shell, and the script as its command. */
  readonly image: string;
  /** The process that answers on the socket. Containers live on without it. */
  signal(signal: NodeJS.Signals): void;
  /** Kills that process, and starts another one. */
  restart(): Promise<void>;
  /** Runs Podman beside the service, on the same storage. */
  podman(...args: readonly string[]): Promise<string>;
  /** What the API answers, as JSON. */
  get(apiPath: string): Promise<unknown>;
}

export interface PodmanOptions {
  /** The shell script that containers run by default. */
  readonly script: string;
  /** The image's name, without a registry that could be asked for it. */
  readonly image?: string;
  /** Addresses of registries without TLS. */
  readonly insecureRegistries?: readonly string[];
}

/** Starts an engine. The machine needs Podman, crun and a static busybox, and the tests root. */
export async function startPodman(options: PodmanOptions): Promise<TestPodman> {
  const { script, image = 'localhost/leasehold-test:1' } = options;
  await removeLeftOver();
  const folder = await mkdtemp(path.join(os.tmpdir(), FOLDER));
  await writeFile(path.join(folder, OWNER), String(process.pid));
  const socket = path.join(folder, 'podman.sock');
  await writeConfiguration(folder, options);
  const rootFs = await writeRootFs(folder, script);
  const podman = (...args: readonly string[]): Promise<string> => podmanIn(folder, args);
  const start = async () => {
    const words = `${PREPARE} exec podman system service --time=0 "unix://$1"`;
    const child = spawn('unshare', [...inside(words), socket], {
      cwd: folder, // the monitors of containers write into it
      env: environmentOf(folder),
      stdio: 'ignore',
    });
    await waitUntil(
      () =>
        answerOf(socket, '/_ping').then(
          () => true,
          () => false,
        ),
      {
        what: 'an answer of the container engine',
        timeoutMs: START_MS_MAX,
      },
    );
    return child;
  };

  let service = await start();
  await podman('import', '--change', 'CMD ["/bin/program"]', rootFs, image);
  return {
    socket,
    image,
    podman,
    get: (apiPath) => answerOf(socket, apiPath),
    signal: (signal) => void service.kill(signal),
    restart: async () => {
      service.kill('SIGKILL');
      await rm(socket, { force: true });
      service = await start();
    },
    [Symbol.asyncDispose]: async () => {
      service.kill('SIGCONT');
      await removeContainers(folder);
      service.kill('SIGKILL');
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}

function inside(words: string): readonly string[] {
  return ['-m', '/bin/sh', '-c', words, 'podman'];
}

function environmentOf(folder: string): NodeJS.ProcessEnv {
  return {
    PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    HOME: folder,
    TMPDIR: folder,
    CONTAINERS_CONF: path.join(folder, 'containers.conf'),
    CONTAINERS_STORAGE_CONF: path.join(folder, 'storage.conf'),
    CONTAINERS_REGISTRIES_CONF: path.join(folder, 'registries.conf'),
  };
}

async function podmanIn(folder: string, args: readonly string[]): Promise<string> {
  const words = [...inside(`${PREPARE} exec podman "$@"`), ...args];
  const { stdout } = await run('unshare', words, { cwd: folder, env: environmentOf(folder) });
  return stdout.trim();
}

/** With their rules in the machine's packet filter. */
async function removeContainers(folder: string): Promise<void> {
  await podmanIn(folder, ['rm', '--all', '--force', '--time', '0']);
  await run('ip', ['link', 'delete', bridgeOf(folder)]).catch(() => undefined);
}

/**
 * Tests that were killed leave containers and, for each published port, a rule that leads connections to
 * a container: the next one at that port would never be reached.
 */
async function removeLeftOver(): Promise<void> {
  for (const name of await readdir(os.tmpdir())) {
    if (!name.startsWith(FOLDER)) continue;
    const folder = path.join(os.tmpdir(), name);
    const owner = path.join(folder, OWNER);
    try {
      if (isRunning(Number(await readFile(owner, 'utf8')))) continue;
      await rename(owner, `${owner}.gone`); // only one succeeds
      await removeContainers(folder);
      await rm(folder, { recursive: true, force: true, maxRetries: 10 });
    } catch {
      // Being made, or being removed by somebody else.
    }
  }
}

/** The folder's own, so that nothing else of the machine is touched. */
function bridgeOf(folder: string): string {
  return `lh${path.basename(folder).slice(-6).toLowerCase()}`;
}

async function writeConfiguration(
  folder: string,
  { insecureRegistries = [] }: PodmanOptions,
): Promise<void> {
  const at = (name: string): string => path.join(folder, name);
  await mkdir(at('net'));
  const containers = [
    '[engine]',
    'cgroup_manager="cgroupfs"',
    'events_logger="none"',
    'runtime="crun"',
    `tmp_dir="${at('tmp')}"`,
    '[network]',
    `network_config_dir="${at('net')}"`,
    'network_backend="cni"',
    'default_network="leasehold"',
  ];
  const storage = [
    '[storage]',
    'driver="vfs"',
    `graphroot="${at('storage')}"`,
    `runroot="${at('run')}"`,
  ];
  const registries = insecureRegistries.flatMap((location) => [
    '[[registry]]',
    `location="${location}"`,
    'insecure=true',
  ]);
  const subnet = `10.${String(100 + Math.floor(Math.random() * 100))}.${String(Math.floor(Math.random() * 250))}`;
  const network = {
    cniVersion: '0.4.0',
    name: 'leasehold',
    plugins: [
      {
        type: 'bridge',
        bridge: bridgeOf(folder),
        isGateway: true,
        ipMasq: true,
        ipam: {
          type: 'host-local',
          dataDir: at('net-state'),
          routes: [{ dst: '0.0.0.0/0' }],
          ranges: [[{ subnet: `${subnet}.0/24`, gateway: `${subnet}.1` }]],
        },
      },
      { type: 'portmap', capabilities: { portMappings: true } },
    ],
  };
  await writeFile(at('containers.conf'), containers.join('\n'));
  await writeFile(at('storage.conf'), storage.join('\n'));
  await writeFile(at('registries.conf'), registries.join('\n'));
  await writeFile(at('net/leasehold.conflist'), JSON.stringify(network));
}

/** As a tar file: a shell with its tools, and the script. */
async function writeRootFs(folder: string, script: string): Promise<string> {
  const root = path.join(folder, 'rootfs');
  const bin = path.join(root, 'bin');
  for (const name of ['bin', 'dev', 'etc', 'proc', 'run', 'sys', 'tmp']) {
    await mkdir(path.join(root, name), { recursive: true });
  }
  await chmod(path.join(root, 'tmp'), 0o1777);
  await copyFile(BUSYBOX, path.join(bin, 'busybox'));
  for (const name of APPLETS) await symlink('busybox', path.join(bin, name));
  await writeFile(path.join(root, 'etc/passwd'), 'root:x:0:0:root:/:/bin/sh\n');
  await writeFile(path.join(bin, 'program'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const file = path.join(folder, 'rootfs.tar');
  await run('tar', ['-C', root, '-cf', file, '.']);
  return file;
}

function answerOf(socketPath: string, apiPath: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const request = http.get({ socketPath, path: apiPath }, (response) => {
      let text = '';
      response.setEncoding('utf8');
      response.on('data', (chunk: string) => {
        text += chunk;
      });
      response.on('end', () =>
        resolve(text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text),
      );
    });
    request.on('error', reject);
  });
}
