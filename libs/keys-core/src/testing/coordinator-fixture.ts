import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { onTestFinished } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { createLeaseCoordinator } from '../leases/coordinator.ts';
import type {
  CoordinatedLease,
  LeaseCoordinator,
  LeaseUseCase,
} from '../leases/coordinator-types.ts';
import type { CallbackSql } from '../postgres/open-store.ts';
import { invariant } from '../kernel/errors.ts';
import type { Kernel } from './kernel-fixture.ts';

/** A coordinator of a process called `holder`. All have the same principal, as in one service. */
export function aCoordinator(kernel: Kernel, holder = 'alice'): LeaseCoordinator<CallbackSql> {
  const { store, leases } = kernel;
  return createLeaseCoordinator({ store, leases, holder, principal: 'token-a' });
}

export interface TestUseCase extends LeaseUseCase<string, CallbackSql> {
  /** The deadlines that `setDeadline` was called with. */
  readonly deadlines: number[];
}

/** A lease on `test/<name>` for a minute, with the hooks that a test gives it. */
export function aUseCase(
  name: string,
  change: Partial<LeaseUseCase<string, CallbackSql>> & { durationMs?: () => number } = {},
): TestUseCase {
  const id = randomUUID();
  const deadlines: number[] = [];
  return {
    deadlines,
    key: () => id,
    scope: () => ({ namespace: ['test'], key: name }),
    durationMs: () => 60_000,
    setDeadline: (at) => void deadlines.push(at),
    ...change,
  };
}

/** Acquires or fails the test. */
export async function acquired(
  coordinator: LeaseCoordinator<CallbackSql>,
  lease: LeaseUseCase<string, CallbackSql>,
): Promise<CoordinatedLease> {
  const answer = await coordinator.acquire(lease, 0);
  invariant(answer.outcome === 'granted', `the test expected a grant, and it is ${answer.outcome}`);
  return answer;
}

/** A table of the test's own, into which hooks and fenced work write notes. */
export async function makeNotes(kernel: Kernel): Promise<() => Promise<string[]>> {
  await kernel.store.general.$executeRaw`create table note (id serial, text text not null)`;
  return async () => {
    const rows = await kernel.store.general.$queryRaw<
      { text: string }[]
    >`select text from note order by id`;
    return rows.map((row) => row.text);
  };
}

/** Writes a note in a transaction. */
export async function note(tx: Pick<CallbackSql, '$executeRaw'>, text: string): Promise<void> {
  await tx.$executeRaw`insert into note (text) values (${text})`;
}

/** A database session outside the kernel. */
export async function openSession(kernel: Pick<Kernel, 'databaseUrl'>): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: kernel.databaseUrl });
  client.on('error', () => undefined);
  await client.connect();
  onTestFinished(() => client.end());
  return client;
}

/** Resolves when this many sessions wait for a lock in this database. */
export async function someoneWaits(kernel: Kernel, count = 1): Promise<void> {
  const session = await openSession(kernel);
  await waitUntil(async () => {
    const { rows } = await session.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`,
    );
    return rows.length >= count;
  });
}

/** How many tickets there are, lapsed ones included. */
export async function placesInLine(kernel: Kernel): Promise<number> {
  const rows = await kernel.store.general.$queryRaw<unknown[]>`select id::text from lease_waiter`;
  return rows.length;
}

/** Resolves when somebody waits in line. */
export async function someoneInLine(kernel: Kernel): Promise<void> {
  await waitUntil(async () => (await placesInLine(kernel)) > 0);
}

/** A gate that a test opens. */
export function aGate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
