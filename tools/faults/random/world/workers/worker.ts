/** A service that uses Leasehold and writes down all that it sees. Blocks its event loop at SIGUSR2. */
import { endAsked, ready, settings } from '../../../leases/stage/program.ts';
import { Diary } from '../diary.ts';
import { Random } from '../../../../simulate/engine/random.ts';
import { runCaller } from './caller.ts';
import { runHolder } from './holder.ts';
import type { WorkerSettings } from './settings.ts';
import { runSharer } from './sharer.ts';
import { runUpdater } from './updater.ts';

/** Past the TTL of most leases. */
const STALL_MS = 2_500;

const given = settings() as WorkerSettings;
const ending = new AbortController();
const ended = endAsked().then(() => {
  ending.abort();
});
process.on('SIGUSR2', () => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, STALL_MS);
});
const parts = {
  settings: given,
  diary: new Diary(given.diary),
  random: new Random(given.seed),
  signal: ending.signal,
};
const run = { caller: runCaller, holder: runHolder, updater: runUpdater, sharer: runSharer }[
  given.role
];
const working = run(parts);
ready();
await ended;
await working;
process.exit(0);
