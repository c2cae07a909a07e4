/**
 * `npm run faults`: a Leasehold of many processes under faults that a seed chooses, and a judge of all that
 * was seen. Ends with 1 when a promise was broken; the last line has the figures.
 *
 *   npm run faults -- --seconds 180 --seed 7     the same seed is the same schedule
 *   npm run faults -- --seconds 90 --each-once   every kind of fault once
 *   npm run faults -- --seed 7 --only f3,f9      only these faults of that schedule
 *   npm run faults -- --seed 7 --shrink          looks for the fewest faults that still break a promise
 *
 * Bundles what it runs from the sources, so that it needs no build before it.
 */
import { runBundled } from './build/run-bundled.mjs';
import { ensurePackages } from './install/debian.mjs';

await ensurePackages(['etcd-server', 'pgbouncer']);

await runBundled('tools/faults/random', {
  main: 'tools/faults/random/main.ts',
  worker: 'tools/faults/random/world/workers/worker.ts',
  witness: 'tools/faults/stage/witness.mjs',
  controller: 'apps/controller/src/main.ts',
  drone: 'apps/drone/src/main.ts',
});
