/**
 * `npm run build:drone`: a drone as one executable, agent and warden, that needs no Node:
 * `out/drone/leasehold-drone-<version>-<target>`.
 *
 *   npm run build:drone -- [--target linux-x64|linux-arm64|darwin-arm64|darwin-x64] [--node FILE]
 *
 * It is Node itself, with the bundle inside, so that backends run on the runtime that all tests use. Agent and warden are
 * one file: the first argument decides. Nothing native is inside. `--node` is the Node of another target, of the same version as
 * the one that runs this script.
 */
import { execFile } from 'node:child_process';
import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readFile,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { parseArgs, promisify } from 'node:util';
import { install, root } from '../workspace.mjs';

const TARGETS = ['linux-x64', 'linux-arm64', 'darwin-arm64', 'darwin-x64'];
const HOST = `${process.platform}-${process.arch}`;
/** Node looks for this text in itself to find out whether something is inside. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';
/** Where an installation of Node has its own license, seen from the folder of its program. */
const NODE_LICENSES = ['../LICENSE', '../share/doc/nodejs/LICENSE', '../share/doc/node/LICENSE'];

const run = promisify(execFile);

const { target, node } = parsed();
if ((await install('install')) !== 0) fail('the packages could not be installed');
// Loaded only now: in a fresh clone they were not installed before.
const { build } = await import('esbuild');
const { BUNDLE_OPTIONS } = await import('./bundle-options.mjs');
const { insideOf } = await import('./inside.mjs');
const { noticesOf } = await import('../packages/notices.mjs');

const { version } = JSON.parse(await readFile(path.join(root, 'package.json'), 'utf8'));
const file = path.join(root, 'out', 'drone', `leasehold-drone-${version}-${target}`);
const workshop = await mkdtemp(path.join(os.tmpdir(), 'leasehold-drone-'));
try {
  await makeExecutable();
} finally {
  await rm(workshop, { recursive: true, force: true });
}
const { size } = await stat(file);
console.log(`${path.relative(root, file)}: ${(size / 1e6).toFixed(0)} MB`);
if (target === HOST) console.log((await run(file, ['--version'])).stdout.trim());
if (target.startsWith('darwin-') && process.platform !== 'darwin') {
  console.log(`macOS runs only what is signed. On a Mac: codesign --sign - ${path.basename(file)}`);
}

function parsed() {
  const { values } = parseArgs({
    options: { target: { type: 'string', default: HOST }, node: { type: 'string' } },
  });
  if (!TARGETS.includes(values.target)) fail(`--target must be one of ${TARGETS.join(', ')}`, 2);
  if (values.target !== HOST && values.node === undefined) {
    fail(`--node must name the Node ${process.version} of ${values.target}`, 2);
  }
  return { target: values.target, node: values.node ?? process.execPath };
}

async function makeExecutable() {
  await examineNode();
  const blob = await makeBlob(await makeBundle());
  const draft = path.join(workshop, 'drone');
  await copyFile(node, draft);
  await chmod(draft, 0o755);
  const isMac = target.startsWith('darwin-');
  if (isMac && process.platform === 'darwin') await run('codesign', ['--remove-signature', draft]);
  // By its command: called here it would print warnings about sections of Node that it does not change.
  const postject = path.join(root, 'node_modules', 'postject', 'dist', 'cli.js');
  const segment = isMac ? ['--macho-segment-name', 'NODE_SEA'] : [];
  const words = [draft, 'NODE_SEA_BLOB', blob, '--sentinel-fuse', FUSE, ...segment];
  await run(process.execPath, [postject, ...words]);
  if (isMac && process.platform === 'darwin') await run('codesign', ['--sign', '-', draft]);
  await mkdir(path.dirname(file), { recursive: true });
  // Moved into place: a drone that runs keeps the file that it was started from.
  const placed = `${file}.${process.pid}`;
  await copyFile(draft, placed);
  await rename(placed, file);
}

/** What is inside must be of the Node that reads it. */
async function examineNode() {
  const content = await readFile(node);
  if (!content.includes(FUSE)) {
    fail(`${node} cannot take a program inside. The Node of nodejs.org can.`);
  }
  if (!content.includes(process.version)) {
    fail(`${node} is not Node ${process.version}, which runs this script`);
  }
}

/** One script, which requires only what Node has itself. */
async function makeBundle() {
  const script = path.join(workshop, 'drone.cjs');
  const { metafile } = await build({
    ...BUNDLE_OPTIONS,
    entryPoints: [path.join(root, 'apps', 'drone', 'src', 'executable-main.ts')],
    outfile: script,
    format: 'cjs',
    banner: {},
    define: {
      LEASEHOLD_BUILD: JSON.stringify(await commit()),
      'import.meta.url': JSON.stringify('file:///leasehold-drone'),
      // ws looks for native code, which is not inside, and Node would warn of that.
      'process.env.WS_NO_BUFFER_UTIL': '"1"',
      'process.env.WS_NO_UTF_8_VALIDATE': '"1"',
    },
    legalComments: 'none',
    metafile: true,
  });
  const notices = await noticesOf(Object.keys(insideOf(metafile)));
  const licenses = path.join(workshop, 'licenses.txt');
  await writeFile(licenses, `${notices}\n${await licenseOfNode()}`);
  return { script, licenses };
}

async function makeBlob({ script, licenses }) {
  const blob = path.join(workshop, 'drone.blob');
  const config = path.join(workshop, 'drone.json');
  const content = {
    main: script,
    output: blob,
    assets: { licenses },
    disableExperimentalSEAWarning: true,
    useSnapshot: false,
    // Only the Node that made it can use it.
    useCodeCache: target === HOST && node === process.execPath,
  };
  await writeFile(config, JSON.stringify(content));
  await run(process.execPath, ['--experimental-sea-config', config]);
  return blob;
}

async function commit() {
  try {
    const { stdout } = await run('git', ['rev-parse', '--short=12', 'HEAD'], { cwd: root });
    const { stdout: changes } = await run('git', ['status', '--porcelain'], { cwd: root });
    return `${stdout.trim()}${changes === '' ? '' : ', changed'}`;
  } catch {
    return 'unknown';
  }
}

async function licenseOfNode() {
  for (const place of NODE_LICENSES) {
    try {
      const text = await readFile(path.join(path.dirname(node), place), 'utf8');
      return `Node ${process.version}, which runs all of this:\n\n${text}`;
    } catch {
      // It may be in the next place.
    }
  }
  return `Node ${process.version}: https://github.com/nodejs/node/blob/${process.version}/LICENSE\n`;
}

function fail(problem, exitCode = 1) {
  console.error(`npm run build:drone: ${problem}`);
  process.exit(exitCode);
}
