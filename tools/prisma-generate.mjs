import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

// Generating needs no schema engine; naming any executable keeps Prisma from downloading one.
const engine = fileURLToPath(new URL('./no-schema-engine.sh', import.meta.url));
const { status } = spawnSync(
  process.execPath,
  ['node_modules/prisma/build/index.js', 'generate', '--no-hints'],
  {
    cwd: fileURLToPath(new URL('..', import.meta.url)),
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: engine, CHECKPOINT_DISABLE: '1' },
  },
);
process.exit(status ?? 1);
