/**
 * A backend that testifies: it writes when it starts, every 50 ms while it lives, and when it is
 * asked to stop, as lines of one file that all backends share. The file is the judge of whether two
 * of them ever lived at once, so nothing of Leasehold is imported here.
 *
 *   node witness.mjs FILE MODE
 *
 * `gentle` ends when it is asked to; `stubborn` does not; `family` is stubborn and has a child that
 * has left its session and its group.
 */
import { spawn } from 'node:child_process';
import { openSync, readlinkSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';

const BEAT_MS = 50;
const [, self, file, mode] = process.argv;
const { LEASEHOLD_KEY, LEASEHOLD_FENCING_TOKEN, LEASEHOLD_BACKEND_ID, PORT } = process.env;

const identity = {
  key: LEASEHOLD_KEY,
  token: LEASEHOLD_FENCING_TOKEN,
  backend: LEASEHOLD_BACKEND_ID,
  // It sees only the PID that it has in its namespace.
  pid: `${readlinkSync('/proc/self/ns/pid')} ${readlinkSync('/proc/self')}`,
};
const testimony = openSync(file, 'a');

/** One write in append mode: lines of several processes do not mix. The time is CLOCK_MONOTONIC. */
function testify(kind) {
  const atMs = Number(process.hrtime.bigint()) / 1e6;
  writeSync(testimony, `${JSON.stringify({ kind, ...identity, atMs })}\n`);
}

testify(mode === 'child' ? 'beat' : 'start');
setInterval(testify, BEAT_MS, 'beat');

process.on('SIGTERM', () => {
  testify('stop');
  if (mode === 'gentle') process.exit(0);
});

if (mode === 'family') {
  spawn(process.execPath, [self, file, 'child'], { detached: true, stdio: 'ignore' });
}
if (mode !== 'child') {
  createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(identity));
  }).listen(Number(PORT), '127.0.0.1');
}
