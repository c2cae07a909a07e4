/**
 * What `npm start` and `npm test` need before anything of the workspace can run. Only what Node has
 * itself is imported here: in a fresh clone there is nothing else yet.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { stat } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the repository. */
export const root = fileURLToPath(new URL('..', import.meta.url));

/** nx without its background process and its full-screen view: these are for people at work. */
export const NX_ENVIRONMENT = { NX_DAEMON: 'false', NX_TUI: 'false', NX_NO_CLOUD: 'true' };

/**
 * Runs a command to its end, its output shown: as it comes, or, with `ifFailed`, at its end and only if it failed.
 * @returns its exit code; a signal counts as 1.
 */
export async function run(command, args, options = {}) {
  const { env = {}, ifFailed = false } = options;
  const output = ifFailed ? 'pipe' : 'inherit';
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', output, output],
  });
  const said = [];
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => said.push(data));
  const [code] = await once(child, 'close');
  if (code !== 0) process.stdout.write(Buffer.concat(said));
  return code ?? 1;
}

/** Runs a program of an installed package. */
export function runInstalled(file, args, options) {
  return run(process.execPath, [path.join(root, 'node_modules', file), ...args], options);
}

/** Runs an nx command. */
export function runNx(args, options = {}) {
  return runInstalled('.bin/nx', args, {
    ...options,
    env: { ...NX_ENVIRONMENT, ...options.env },
  });
}

/** Installs what the lock file names, unless that has been done. @returns the exit code. */
export async function install(command) {
  if (await isInstalled()) return 0;
  console.log(`Installing packages (npm ${command}); the first time takes a minute …`);
  // npm says where it is, so that the npm that runs us is also the npm that installs.
  const npm = process.env.npm_execpath;
  // The lock file has the versions and their hashes: what is known of a package is asked of no registry again.
  const args = [command, '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error'];
  return npm ? run(process.execPath, [npm, ...args]) : run('npm', args);
}

async function isInstalled() {
  const [installed, locked] = await Promise.all(
    ['node_modules/.package-lock.json', 'package-lock.json'].map((file) =>
      stat(path.join(root, file)).catch(() => undefined),
    ),
  );
  return installed !== undefined && locked !== undefined && installed.mtimeMs >= locked.mtimeMs;
}

/** Makes the Prisma client. @returns the exit code. */
export function generate() {
  return run(process.execPath, [path.join(root, 'tools', 'build', 'prisma-generate.mjs')]);
}

/**
 * Installs and builds what is missing, quietly; what fails is shown, and ends this process.
 * @param command its name, for messages.
 */
export async function prepare(command, projects = []) {
  const build = ['run-many', '-t', 'build', '--outputStyle=static'];
  const args = projects.length === 0 ? build : [...build, '-p', ...projects];
  const steps = [
    { name: 'install', work: () => install('install') },
    {
      name: 'build',
      work: () => {
        console.error('Building …');
        return runNx(args, { ifFailed: true });
      },
    },
  ];
  for (const { name, work } of steps) {
    const code = await work();
    if (code === 0) continue;
    console.error(`${command}: the step "${name}" failed.`);
    process.exit(code);
  }
}
