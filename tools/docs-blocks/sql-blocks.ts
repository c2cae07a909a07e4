/** Runs the SQL blocks of the pages, as psql does with variables. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { createLeasehold } from '@leasehold/client';
import type { Block } from './blocks.ts';
import type { Stage } from './stage.ts';

/** What became of a block: that it ran, or the SQLSTATE that it was refused with. */
export interface SqlRuns {
  readonly whileHeld: string;
  readonly afterRelease: string;
}

/** Runs a block under a lease whose values it gets, and again after that lease was released. */
export async function runUnderLease(block: Block, stage: Stage): Promise<SqlRuns> {
  // As a service connects: it searches its own tables.
  const database = new pg.Client({
    connectionString: stage.databaseUrl,
    options: '-c search_path=public',
  });
  await database.connect();
  await using leasehold = createLeasehold({ url: stage.controllerUrl, token: stage.token });
  try {
    await database.query('create table if not exists account (id text, balance int)');
    const lease = await leasehold.defineLease(['docs']).acquire(randomUUID());
    const text = block.lines
      .join('\n')
      .replaceAll(":'lease_id'", pg.escapeLiteral(lease.leaseId))
      .replaceAll(":'token'", pg.escapeLiteral(lease.fencingToken));
    const whileHeld = await outcomeOf(database, text);
    await lease.release();
    return { whileHeld, afterRelease: await outcomeOf(database, text) };
  } finally {
    await database.end();
  }
}

async function outcomeOf(database: pg.Client, text: string): Promise<string> {
  try {
    await database.query(text);
    return 'committed';
  } catch (error) {
    await database.query('rollback');
    if (error instanceof pg.DatabaseError) return error.code ?? 'unknown';
    throw error;
  }
}
