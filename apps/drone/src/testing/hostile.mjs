/**
 * A backend that attacks the drone which runs it. It is told where everything is, tries each way in,
 * and prints one line for each: what it got, or why it was refused. Nothing of Leasehold is imported.
 *
 *   node hostile.mjs TARGETS
 *
 * TARGETS is a JSON file: the processes of the drone and its controller, its folders, its socket and
 * its configuration.
 */
import { spawnSync } from 'node:child_process';
import {
  readFileSync,
  readdirSync,
  readlinkSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import net from 'node:net';
import path from 'node:path';

const targets = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const SECRET = /lh_[A-Za-z0-9_-]{16,}|postgresql:\/\/|"secret"/u;

/** @param {string} attack @param {() => unknown} tried returns what was got; undefined if nothing */
async function attempt(attack, tried) {
  let got;
  try {
    got = await tried();
  } catch (error) {
    print({ attack, refused: error.code ?? error.message });
    return;
  }
  print(got === undefined ? { attack, refused: 'nothing' } : { attack, got: String(got) });
}

function print(line) {
  console.log(JSON.stringify(line));
}

/** The secret in a file, if it has one; an error when the file cannot be read. */
function secretIn(file) {
  return SECRET.exec(readFileSync(file, 'latin1'))?.[0];
}

/** Signals another process; an error when it cannot be reached. */
function signalled(pid, signal) {
  process.kill(pid, signal);
  return `signal ${signal} to ${pid}`;
}

function run(command, ...args) {
  const { status, stdout, error } = spawnSync(command, args, { encoding: 'utf8', timeout: 5_000 });
  if (error !== undefined) throw error;
  if (status !== 0) throw new Error(`exit code ${status}`);
  return stdout.trim();
}

function hello(socketPath) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(socketPath, () => {
      resolve('connected');
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

const { pids, stateDir, home, socketPath, config, program } = targets;
const others = Object.entries(pids);

// What it sees of other processes.
await attempt('see a process of the machine', () => {
  const commands = readdirSync('/proc')
    .filter((name) => /^\d+$/u.test(name))
    .map((name) => readFileSync(`/proc/${name}/cmdline`, 'utf8').replaceAll('\0', ' '));
  return commands.find((command) =>
    /warden |agent --config|controller|leasehold-leash/u.test(command),
  );
});
await attempt(
  'find a secret in the environment of any process',
  () =>
    readdirSync('/proc')
      .filter((name) => /^\d+$/u.test(name))
      .flatMap((name) => {
        try {
          return secretIn(`/proc/${name}/environ`) ?? [];
        } catch {
          return [];
        }
      })[0],
);
for (const [who, pid] of [...others, ['its init', 1]]) {
  for (const file of ['environ', 'mem', 'maps', 'root', 'cwd', 'fd', 'ns/mnt']) {
    await attempt(`read ${file} of ${who}`, () => {
      const place = `/proc/${pid}/${file}`;
      if (file === 'fd') return readdirSync(place).map((fd) => readlinkSync(`${place}/${fd}`));
      return ['root', 'cwd', 'ns/mnt'].includes(file)
        ? readlinkSync(place)
        : readFileSync(place).length;
    });
  }
}

// Files of the drone, by every path that leads to them.
for (const root of [
  '',
  '/proc/self/root',
  '/proc/thread-self/root',
  '/proc/1/root',
  '/proc/self/cwd',
]) {
  const at = (file) => `${root}${file}`;
  for (const file of ['warden.json', 'backends.jsonl', 'warden.log']) {
    await attempt(`read ${at(file)}`, () => readFileSync(at(path.join(stateDir, file))).length);
  }
  for (const file of ['credentials.json', 'run.json', 'auth-secret']) {
    await attempt(`read ${at(file)}`, () => readFileSync(at(path.join(home, file))).length);
  }
  await attempt(`connect to the warden at ${root}`, () => hello(at(socketPath)));
}
await attempt('connect to the warden by a relative path', () =>
  hello(path.relative(process.cwd(), socketPath)),
);
await attempt('see what the state folder holds', () =>
  readdirSync(stateDir).find((name) => name !== 'data' && name !== 'tmp'),
);

await attempt('read a file that was open when the drone was started', () =>
  readdirSync('/proc/self/fd')
    .map((name) => `/proc/self/fd/${name}`)
    .filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile())
    .map(secretIn)
    .find((secret) => secret !== undefined),
);

// Files that control the drone.
await attempt('write the configuration', () => writeFileSync(config, '{}') ?? 'written');
await attempt('replace the configuration', () => {
  writeFileSync(`${config}.new`, '{}');
  renameSync(`${config}.new`, config);
  return 'replaced';
});
await attempt('move the folder of the configuration away', () => {
  renameSync(path.dirname(config), `${path.dirname(config)}.old`);
  return 'moved';
});
await attempt(
  'write the program of the drone',
  () => writeFileSync(program, '', { flag: 'a' }) ?? 'written',
);
await attempt(
  'write into the state folder',
  () => writeFileSync(path.join(stateDir, 'warden.json'), '{}') ?? 'written',
);

// Privileges.
await attempt('gain privileges by su', () => run('su', '-c', 'id'));
await attempt('gain privileges by sudo', () => run('sudo', '-n', 'id'));
await attempt('uncover the state folder', () => run('umount', '-l', stateDir) || 'uncovered');
await attempt('uncover the home', () => run('umount', '-l', home) || 'uncovered');
await attempt('uncover the state folder in a namespace of its own', () =>
  run(
    ...['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c'],
    `umount -l ${home}; umount -l ${stateDir}; cat ${stateDir}/warden.json`,
  ),
);
await attempt("mount the machine's /proc in a namespace of its own", () => {
  const script = `mount -t proc proc /proc && cat /proc/${pids.agent}/environ`;
  return run('unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', script);
});
await attempt("enter its init's namespaces", () => run('nsenter', '--target', '1', '--all', 'id'));
print({ status: readFileSync('/proc/self/status', 'utf8') });

// Signals, and tracing, which is asked for in the same way as memory above.
for (const [who, pid] of others) {
  await attempt(`stop ${who}`, () => signalled(pid, 'SIGSTOP'));
  await attempt(`kill ${who}`, () => signalled(pid, 'SIGKILL'));
}
for (const signal of ['SIGKILL', 'SIGSTOP', 'SIGINT']) {
  try {
    process.kill(1, signal);
  } catch {
    // The next attempt shows whether its init was affected.
  }
}
await attempt('end its init', () => {
  const state = /^State:\s+(\S)/mu.exec(readFileSync('/proc/1/status', 'utf8'))?.[1];
  return /[TtZX]/u.test(state) ? `init is ${state}` : undefined;
});
print({ attack: 'done', environment: { ...process.env } });
setInterval(() => undefined, 1_000);
