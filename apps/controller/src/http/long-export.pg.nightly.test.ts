import { once } from 'node:events';
import http from 'node:http';
import { connect } from 'node:net';
import { createTestDatabase, waitUntil, type TestDatabase } from '@leasehold/testing';
import type { Role } from '@leasehold/keys-core';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startTestController, type TestController } from '../testing/test-controller.ts';

/** Rows of about a kilobyte each: more than the buffers between a server and a stalled client hold. */
const LONG_ROWS = 20_000;

/** With {@link LONG_ROWS} leases, whose names do not matter. */
let full: TestDatabase;

beforeAll(async () => {
  full = await createTestDatabase();
  const client = new pg.Client(full.url);
  await client.connect();
  await client.query(`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms, comment,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
    select 'lease', 'many', 'k' || i, gen_random_uuid(), i, 'h', 'p', 60000, repeat('x', 500),
      20000, 50000, 50000, now(), now(), now() + interval '1 hour'
    from generate_series(1, ${String(LONG_ROWS)}) i`);
  await client.end();
});

afterAll(() => full.drop());

interface LongExport {
  readonly on: TestController;
  readonly secret: string;
  /** An answer whose head has arrived, and of whose body nothing was read yet. */
  readonly response: http.IncomingMessage;
}

async function openLong(role: Role = 'viewer'): Promise<LongExport & { tokenId: string }> {
  const on = await startTestController({ copyOf: full });
  const { secret, tokenId } = await on.token(role);
  return { on, secret, tokenId, response: await ask(on, secret) };
}

function ask(on: TestController, secret: string): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    const request = http.get(`${on.url}/export/leases`, {
      agent: false,
      headers: { authorization: `Bearer ${secret}` },
    });
    request.on('error', reject);
    request.on('response', resolve);
    onTestFinished(() => {
      request.destroy();
    });
  });
}

interface RawExport {
  readonly on: TestController;
  readonly tokenId: string;
  /** Why the connection ended; undefined when it ended in good order. */
  readonly why: Promise<string | undefined>;
}

/**
 * An export over HTTP/1.0 that waits for the database, and whose client has read all that was sent.
 * `act` happens while it waits, in the transaction that it waits for.
 */
async function standStill(
  act: (
    tx: Parameters<Parameters<General['$transaction']>[0]>[0],
    raw: RawExport,
  ) => Promise<unknown>,
): Promise<RawExport> {
  const on = await startTestController({ copyOf: full });
  const { secret, tokenId } = await on.token('viewer');
  const { hostname, port } = new URL(on.url);
  const socket = connect(Number(port), hostname);
  onTestFinished(() => {
    socket.destroy();
  });
  const why = once(socket, 'end').then(
    () => undefined,
    (error: unknown) => (error as NodeJS.ErrnoException).code,
  );
  const raw = { on, tokenId, why };
  socket.write(`GET /export/leases HTTP/1.0\r\nauthorization: Bearer ${secret}\r\n\r\n`);
  await once(socket, 'readable');
  await untilStill({ on });
  const { general } = on.controller.store;
  await general.$transaction(async (tx) => {
    await tx.$executeRaw`set local idle_in_transaction_session_timeout = 0`;
    await tx.$executeRaw`lock table lease in access exclusive mode`;
    socket.resume();
    await waitUntil(async () => (await lockWaiters(general)) > 0, { what: 'the export waits' });
    await act(tx, raw);
  });
  return raw;
}

type General = TestController['controller']['store']['general'];

async function lockWaiters(general: General): Promise<number> {
  const rows = await general.$queryRaw<{ count: number }[]>`
    select count(*)::int as count
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
      and query like ${PAGE_QUERY}`;
  return rows[0]?.count ?? 0;
}

/** Matches the statement that reads a page; PostgreSQL shows the first 1,024 characters of a statement. */
const PAGE_QUERY = '%as "isOnPage"%';

/** Waits until the export stops reading the database, because its client reads nothing. */
async function untilStill({ on }: Pick<LongExport, 'on'>): Promise<void> {
  const isStill = async (): Promise<boolean> => {
    const rows = await on.controller.store.general.$queryRaw<{ isStill: boolean }[]>`
      select coalesce(max(query_start) < clock_timestamp() - interval '1 second', false) as "isStill"
      from pg_stat_activity
      where datname = current_database() and pid <> pg_backend_pid() and query like ${PAGE_QUERY}`;
    return rows[0]?.isStill === true;
  };
  await waitUntil(isStill, { what: 'the export stands still', timeoutMs: 30_000 });
}

/** All of the body, or why it was cut off. */
async function rest({ response }: LongExport): Promise<{ text: string } | { cutOff: string }> {
  let text = '';
  try {
    for await (const chunk of response) text += String(chunk);
    return { text };
  } catch (error) {
    return { cutOff: (error as NodeJS.ErrnoException).code ?? String(error) };
  }
}

describe('a long export', () => {
  test('is whole for a client that reads slowly, with each row once', async () => {
    const long = await openLong();
    await untilStill(long);

    const all = await rest(long);

    const found =
      'text' in all ? (JSON.parse(all.text) as { namespace: string; name: string }[]) : [];
    const rows = found.filter(({ namespace }) => namespace !== 'leasehold');
    expect(rows).toHaveLength(LONG_ROWS);
    expect(new Set(rows.map(({ name }) => name)).size).toBe(LONG_ROWS);
  });

  test('reads the database only as fast as its client reads the file', async () => {
    const long = await openLong();
    await untilStill(long);
    // What was not read by now no longer exists.
    await long.on.controller.store.general.$executeRaw`delete from lease`;

    const all = await rest(long);

    const rows = 'text' in all ? (JSON.parse(all.text) as unknown[]) : [];
    expect(rows.length).toBeGreaterThanOrEqual(500);
    expect(rows.length).toBeLessThan(LONG_ROWS);
  });

  test('that fails in the middle is cut off, so that nobody takes it for a whole one', async () => {
    const long = await openLong();
    await untilStill(long);
    await long.on.controller.store.general.$executeRaw`alter table lease rename to gone`;

    expect(await rest(long)).toEqual({ cutOff: 'ECONNRESET' });
  });

  test('whose token is revoked is cut off at once over HTTP/1.0, even while it waits for the database', async () => {
    const { why } = await standStill(async (_tx, { on, tokenId, why }) => {
      await (await on.client('admin')).tokens.revoke.mutate({ tokenId });
      await why;
    });

    expect(await why).toBe('ECONNRESET');
  });

  test('keeps its place, one of a few, until its client is gone', async () => {
    const long = await openLong();
    const open = [long.response, await ask(long.on, long.secret)];
    while (open.length < 8) {
      const { secret } = await long.on.token('viewer');
      open.push(await ask(long.on, secret), await ask(long.on, secret));
    }
    const { secret } = await long.on.token('viewer');
    const status = async (): Promise<number | undefined> => {
      const response = await ask(long.on, secret);
      response.destroy();
      return response.statusCode;
    };

    expect(await status()).toBe(429);
    open[3]?.destroy();

    await waitUntil(async () => (await status()) === 200, { what: 'another export has its place' });
  });

  test('takes no place for a client that left while its token was looked up', async () => {
    const on = await startTestController({ copyOf: full });
    const { secret } = await on.token('viewer');
    const { general } = on.controller.store;
    const lookUps = async (): Promise<number> => {
      const rows = await general.$queryRaw<{ count: number }[]>`
        select count(*)::int as count from pg_locks
        where relation = 'api_token'::regclass and not granted`;
      return rows[0]?.count ?? 0;
    };
    const { hostname, port } = new URL(on.url);
    await general.$transaction(async (tx) => {
      await tx.$executeRaw`set local idle_in_transaction_session_timeout = 0`;
      await tx.$executeRaw`lock table api_token in access exclusive mode`;
      const sockets = [1, 2].map(() => connect(Number(port), hostname));
      for (const socket of sockets) {
        socket.write(
          `GET /export/leases HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${secret}\r\n\r\n`,
        );
      }
      await waitUntil(async () => (await lookUps()) > 0, { what: 'the look-up' });
      // What is asked later is answered later: by then all has arrived, and then that they have left.
      await fetch(`${on.url}/healthz`);
      for (const socket of sockets) socket.resetAndDestroy();
      await fetch(`${on.url}/healthz`);
    });

    expect((await ask(on, secret)).statusCode).toBe(200);
  });

  test('leaves places to others: one caller has at most two', async () => {
    const long = await openLong();
    const second = await ask(long.on, long.secret);
    const status = async (secret: string): Promise<number | undefined> => {
      const response = await ask(long.on, secret);
      response.destroy();
      return response.statusCode;
    };

    expect(await status(long.secret)).toBe(429);
    expect(await status((await long.on.token('viewer')).secret)).toBe(200);
    second.destroy();

    await waitUntil(async () => (await status(long.secret)) === 200, { what: 'a place is free' });
  });
});
