/**
 * A deployment under `env run`: it notes in a file that it is at work, all the time, and writes into a table, fenced.
 * `stubborn` does not end at SIGTERM.
 */
import { appendFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import pg from 'pg';

const [file, table, temper] = process.argv.slice(2);
const { LEASEHOLD_FENCING_TOKEN: token, LEASEHOLD_LEASE_ID: leaseId, DATABASE_URL } = process.env;

const note = () => {
  // CLOCK_MONOTONIC, which is the same in all processes of the machine.
  appendFileSync(file, `${token} ${process.hrtime.bigint() / 1_000n}\n`);
};
note();
setInterval(note, 5);
if (temper === 'stubborn') process.on('SIGTERM', () => undefined);

const client = new pg.Client({ connectionString: DATABASE_URL });
client.on('error', () => undefined);
await client.connect();
for (;;) {
  try {
    await client.query('begin');
    await client.query(`insert into ${table} (file, token) values ($1, $2)`, [file, token]);
    await client.query('select leasehold.leasehold_assert_held($1, $2)', [leaseId, token]);
    await client.query('commit');
  } catch {
    // Its lease is over: it goes on and tries, as one that does not know that.
    await client.query('rollback').catch(() => undefined);
  }
  await pause(20);
}
