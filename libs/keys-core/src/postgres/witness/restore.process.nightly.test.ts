import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { freePort, waitUntil } from '@leasehold/testing';
import { LeaseError } from '../../kernel/errors.ts';
import { serviceLadder } from '../../kernel/ladder.ts';
import type { Grant } from '../../kernel/lease.ts';
import {
  aRequest,
  openKernel,
  releaseOf,
  renewalOf,
  MACHINE_CLOCK,
  type Kernel,
} from '../../testing/kernel-fixture.ts';
import { runSql } from '../../testing/migration-fixture.ts';
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../embedded/embedded-postgres.ts';
import { createDatabase, findMigrationsDir, migrate } from '../migrate.ts';
import type { StoreOptions } from '../open-store.ts';
import type { StoreMemory } from './store-memory.ts';
import type { WitnessNotice } from './database-witness.ts';

/** So short that a test can wait for the end of a hold-off. */
const TTL_MS = 2_000;
const LADDER = serviceLadder(TTL_MS);
const HELD_OFF = { code: 'grant.hold_off', details: { reason: 'restored' } };

let folder: string;
let postgres: EmbeddedPostgres;
let port: number;
const dataDir = (): string => path.join(folder, 'postgres');
const copyDir = (): string => path.join(folder, 'copy');

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-restore-'));
  // Between a stop and the next start nobody is given this one.
  port = await freePort();
  await start();
  await createDatabase(postgres.url('leasehold'));
  await migrate(postgres.url('leasehold'), findMigrationsDir());
});
afterAll(async () => {
  await postgres.stop();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

/** With fsync, as in an installation, and on the same port as before. */
async function start(): Promise<void> {
  postgres = await startEmbeddedPostgres({ dataDir: dataDir(), port });
}

/** Keeps the owner: PostgreSQL may run as another user than the tests. */
async function copy(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to]);
}

/** Takes a copy of the data folder of the stopped PostgreSQL, as an administrator would. */
async function takeCopy(): Promise<void> {
  await postgres.stop();
  await rm(copyDir(), { recursive: true, force: true });
  await copy(dataDir(), copyDir());
  await start();
}

/** Kills PostgreSQL, replaces its data folder with the copy and starts it. */
async function putCopyBack(): Promise<void> {
  postgres.kill();
  await postgres.exited;
  await rm(dataDir(), { recursive: true });
  await copy(copyDir(), dataDir());
  await start();
}

/** Lets the log go on, by a session of its own: a statement of a store has a time limit. */
async function fillLog(): Promise<void> {
  await runSql(
    postgres.url('leasehold'),
    'create table filler as select generate_series(1, 50000) n',
    'drop table filler',
  );
}

interface Watched extends Kernel {
  readonly notices: WitnessNotice[];
  readonly home: () => StoreMemory | undefined;
}

async function open(options: Partial<StoreOptions> = {}): Promise<Watched> {
  const notices: WitnessNotice[] = [];
  let memory: StoreMemory | undefined;
  const kernel = await openKernel({
    databaseUrl: postgres.url('leasehold'),
    onWitness: (notice) => notices.push(notice),
    keep: (newest) => {
      memory = newest;
      return Promise.resolve();
    },
    ...options,
  });
  return { ...kernel, notices, home: () => memory };
}

/** Retries until the database answers again: earlier connections died with it. */
async function outcomeOf(kernel: Kernel, name: string): Promise<Grant | LeaseError> {
  return waitUntil(async () => {
    try {
      const outcome = await kernel.leases.grant(aRequest({ name, ladder: LADDER }));
      return outcome.outcome === 'granted' ? outcome.grant : undefined;
    } catch (error) {
      if (error instanceof LeaseError && error.code === 'grant.hold_off') return error;
      return undefined;
    }
  });
}

async function untilGranted(kernel: Kernel, name: string): Promise<Grant> {
  return waitUntil(async () => {
    const outcome = await outcomeOf(kernel, name);
    return outcome instanceof LeaseError ? undefined : outcome;
  });
}

describe('H-restore a data folder that is copied back', () => {
  let kernel: Watched;
  /** Granted after the copy was taken: its holder goes on, whatever happens to the database. */
  let held: Grant;
  let heldUntilMs: number;
  let name: string;
  let count = 0;

  beforeEach(async () => {
    count += 1;
    name = `key ${String(count)}`;
    kernel = await open();
    // In the copy its row has an older token than its holder will have.
    const former = await untilGranted(kernel, name);
    await kernel.leases.release('lease', releaseOf(former));
    await takeCopy();
    held = await untilGranted(kernel, name);
    heldUntilMs = MACHINE_CLOCK.nowMs() + held.remainingMs;
  });

  test('C17 a process that kept running grants nothing until the last grant is over, then with a larger token', async () => {
    await putCopyBack();

    const first = await outcomeOf(kernel, name);
    const next = await untilGranted(kernel, name);

    expect(first).toMatchObject(HELD_OFF);
    expect(MACHINE_CLOCK.nowMs()).toBeGreaterThan(heldUntilMs);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(kernel.notices).toMatchObject([{ kind: 'held_off', cause: 'controller' }]);
  });

  test('C17 a process that restarts with its home folder does the same', async () => {
    await kernel.store.witness.look();
    const remembered = kernel.home();
    await kernel.store.close();
    await putCopyBack();

    const restarted = await open({ remembered });
    const first = await outcomeOf(restarted, name);
    const next = await untilGranted(restarted, name);

    expect(first).toMatchObject(HELD_OFF);
    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(restarted.notices).toMatchObject([{ kind: 'held_off', cause: 'controller' }]);
  });

  test('C17 a process that has lost its home folder notices it from a stamp, and not without one; its next token is larger', async () => {
    const stamp = kernel.store.witness.stamp();
    await kernel.store.close();
    await putCopyBack();

    const fresh = await open();
    const unaware = await outcomeOf(fresh, `other ${name}`);
    await fresh.store.witness.consider(stamp);
    const first = await outcomeOf(fresh, name);
    const next = await untilGranted(fresh, name);

    expect(BigInt(next.fencingToken)).toBeGreaterThan(BigInt(held.fencingToken));
    expect(unaware).not.toBeInstanceOf(LeaseError);
    expect(first).toMatchObject(HELD_OFF);
    expect(fresh.notices).toMatchObject([{ kind: 'held_off', cause: 'holder' }]);
  });

  test('is noticed even if the log of the database has since passed its former position', async () => {
    const { position } = kernel.store.witness.mark;
    await putCopyBack();
    const fresh = await open();
    await untilGranted(fresh, 'goes on');
    await fillLog();
    const [passed] = await fresh.store.general.$queryRaw<{ passed: boolean }[]>`
      select pg_current_wal_flush_lsn() > ${position}::pg_lsn as passed`;

    const first = await outcomeOf(kernel, name);

    expect(passed).toEqual({ passed: true });
    expect(first).toMatchObject(HELD_OFF);
  });
});

test('H-restore a copy that lacks less than a beat is noticed by the position of the log', async () => {
  // A process whose next beat is far away: its clock stands still.
  const clock = { ...MACHINE_CLOCK, nowMs: () => 0 };
  const kernel = await open({ clock });
  await untilGranted(kernel, 'first of its beat');
  await takeCopy();
  await untilGranted(kernel, 'lost within a beat');
  const { beat } = kernel.store.witness.mark;
  await putCopyBack();
  const fresh = await open();
  await untilGranted(fresh, 'another one goes on');
  await fillLog();

  const first = await outcomeOf(kernel, 'lost within a beat');

  expect(beat).toBe(1);
  expect(first).toMatchObject(HELD_OFF);
});

test('H-restore a PostgreSQL that is killed again and again under load raises no alarm', async () => {
  const kernels = await Promise.all([open(), open()]);
  for (const [at, kernel] of kernels.entries()) await untilGranted(kernel, `calm ${String(at)}`);
  let isOver = false;
  let grantCount = 0;
  const load = kernels.flatMap((kernel, at) =>
    Array.from({ length: 4 }, async (_, worker) => {
      for (let round = 0; !isOver; round += 1) {
        try {
          const name = `load ${String(at)}.${String(worker)}.${String(round)}`;
          const outcome = await kernel.leases.grant(aRequest({ name, ladder: LADDER }));
          if (outcome.outcome !== 'granted') continue;
          await kernel.leases.renew('lease', renewalOf(outcome.grant));
          grantCount += 1;
          if (worker === 0) await kernel.store.witness.look();
        } catch (error) {
          if (error instanceof LeaseError && error.code === 'grant.hold_off') isOver = true;
        }
      }
    }),
  );

  for (let kills = 0; kills < 3; kills += 1) {
    const before = grantCount;
    await waitUntil(() => isOver || grantCount > before + 50);
    postgres.kill();
    await postgres.exited;
    await start();
  }
  const before = grantCount;
  await waitUntil(() => isOver || grantCount > before + 50);
  isOver = true;
  await Promise.all(load);

  expect(kernels.flatMap(({ notices }) => notices)).toEqual([]);
});
