/** Makes the Prisma client with which tests stand for a service. Prints only what went wrong. */
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

// Generating needs no schema engine; naming any executable keeps Prisma from downloading one.
const engine = fileURLToPath(new URL('../install/no-schema-engine.sh', import.meta.url));
const { status, stdout, stderr } = spawnSync(
  process.execPath,
  ['node_modules/prisma/build/index.js', 'generate', '--no-hints'],
  {
    cwd: fileURLToPath(new URL('../..', import.meta.url)),
    encoding: 'utf8',
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: engine, CHECKPOINT_DISABLE: '1' },
  },
);
if (status !== 0) process.stderr.write(`${stdout}${stderr}`);
process.exit(status ?? 1);
