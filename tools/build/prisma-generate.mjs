/**
 * Makes the Prisma client of the schema, unless it is there already. Several processes may do so at once: it is
 * made elsewhere, and moved into place. Prints only what went wrong.
 */
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../..', import.meta.url));
const SCHEMA = 'prisma/schema';
/** As the schema names it. */
const CLIENT = 'libs/keys-core/src/postgres/generated';
/** In the client: what it was made of. */
const MADE_OF = '.made-of';

/** @throws {Error} with what Prisma printed. */
export function ensureClient() {
  const wanted = fingerprint();
  if (isMadeOf(wanted)) return;
  // From there Prisma's packages are found, and it is on the same file system.
  const draft = mkdtempSync(path.join(root, 'node_modules', '.prisma-client-'));
  try {
    cpSync(path.join(root, SCHEMA), path.join(draft, SCHEMA), { recursive: true });
    generate(draft);
    writeFileSync(path.join(draft, CLIENT, MADE_OF), wanted);
    // Somebody may be reading what somebody else was faster to make.
    if (isMadeOf(wanted)) return;
    replace(path.join(root, CLIENT), path.join(draft, CLIENT), path.join(draft, 'former'));
  } finally {
    rmSync(draft, { recursive: true, force: true });
  }
}

function generate(folder) {
  // Generating needs no schema engine; naming any executable keeps Prisma from downloading one.
  const engine = path.join(root, 'tools', 'install', 'no-schema-engine.sh');
  const prisma = path.join(root, 'node_modules', 'prisma', 'build', 'index.js');
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [prisma, 'generate', '--no-hints', `--schema=${SCHEMA}`],
    {
      cwd: folder,
      encoding: 'utf8',
      env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: engine, CHECKPOINT_DISABLE: '1' },
    },
  );
  if (status !== 0) throw new Error(`prisma generate failed:\n${stdout}${stderr}`);
}

/** The schema, and who reads it. */
function fingerprint() {
  const hash = createHash('sha256');
  for (const file of readdirSync(path.join(root, SCHEMA)).sort()) {
    hash.update(`${file}\n`).update(readFileSync(path.join(root, SCHEMA, file)));
  }
  for (const file of ['node_modules/prisma/package.json', 'tools/build/prisma-generate.mjs']) {
    hash.update(readFileSync(path.join(root, file)));
  }
  return hash.digest('hex');
}

function replace(target, made, former) {
  try {
    renameSync(target, former);
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  try {
    renameSync(made, target);
  } catch (error) {
    if (!isTaken(error)) throw error;
  }
}

function isTaken({ code }) {
  return code === 'ENOTEMPTY' || code === 'EEXIST';
}

function isMadeOf(wanted) {
  try {
    return readFileSync(path.join(root, CLIENT, MADE_OF), 'utf8') === wanted;
  } catch {
    return false;
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    ensureClient();
  } catch (error) {
    process.stderr.write(`${error.message}\n`);
    process.exitCode = 1;
  }
}
