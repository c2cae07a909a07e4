/**
 * Plays bad days of Leasehold on a virtual clock, and checks what it promises: `npm run simulate`.
 *
 *   npm run simulate -- --schedules 10000 --seed 1             that many schedules
 *   npm run simulate -- --seed 1 --only 17                     one of them
 *   npm run simulate -- --seed 1 --plant renewal-revives       with a planted defect, which it must find
 *
 * Exits with 0 only if no promise was broken; the last line has the figures. Bundles `tools/simulate` the
 * way the apps are bundled, so that what runs is what ships. See docs/proof.md.
 */
import { runBundled } from './build/run-bundled.mjs';

// Much is made and soon forgotten: with a larger nursery, little of it is copied.
await runBundled('tools/simulate', { main: 'tools/simulate/main.ts' }, [
  '--max-semi-space-size=64',
]);
