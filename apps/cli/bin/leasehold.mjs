#!/usr/bin/env node
import { existsSync } from 'node:fs';

// A launcher that is committed, so that `npx leasehold` works as soon as npm has installed; the
// program itself is built.
const program = new URL('../dist/main.mjs', import.meta.url);
if (existsSync(program)) {
  await import(program.href);
} else {
  console.error(
    'leasehold is not built yet. Run `npm run build`, or `npm start`, which builds it.',
  );
  process.exitCode = 1;
}
