/**
 * Builds the console for production: the pages, by Next, and the server around them. Ends with a
 * report of how much each page loads; a page that loads too much fails the build.
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

const folder = import.meta.dirname;
const tools = path.join(folder, '..', '..', 'tools');

const STEPS = [
  [createRequire(import.meta.url).resolve('next/dist/bin/next'), 'build'],
  [path.join(tools, 'build', 'bundle.mjs'), 'console'],
  [path.join(tools, 'build', 'first-load.mjs')],
];

for (const step of STEPS) {
  const { status } = spawnSync(process.execPath, step, {
    stdio: 'inherit',
    cwd: folder,
    env: { ...process.env, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' },
  });
  if (status !== 0) process.exit(status ?? 1);
}
