import { once } from 'node:events';
import http from 'node:http';
import { connect } from 'node:net';
import { waitUntil } from '@leasehold/testing';
import type { Role } from '@leasehold/keys-core';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import {
  openTestController,
  startTestController,
  type TestController,
} from '../testing/test-controller.ts';
import { acquireLease, refOf } from '../testing/wire-leases.ts';
import { call, mutate } from '../testing/wire.ts';

/** A file as a client gets it: whole, or cut off. */
async function download(
  on: TestController,
  path: string,
  secret: string,
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(`${on.url}/export/${path}`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

/** As many leases as that, whose names do not matter. */
async function seedLeases(on: TestController, count: number): Promise<void> {
  await on.controller.store.prisma.$executeRaw`
    insert into lease (face, namespace, name, lease_id, fencing_token, holder, principal, ttl_ms, comment,
      renew_after_ms, soft_after_ms, hard_after_ms, granted_at, renewed_at, expires_at)
    select 'lease', 'many', 'k' || i, gen_random_uuid(), i, 'h', 'p', 60000, repeat('x', 500),
      20000, 50000, 50000, now(), now(), now() + interval '1 hour'
    from generate_series(1, ${count}::int) i`;
}

interface Event {
  readonly id: string;
  readonly at: string;
  readonly kind: string;
}

describe('an export', () => {
  let on: TestController;
  let secret: string;
  let operator: string;
  beforeAll(async () => {
    const { close, ...started } = await openTestController();
    on = started;
    secret = (await on.token('client')).secret;
    operator = (await on.token('operator')).secret;
    return close;
  });

  test('as JSON is the list, one object on each line, in a file that is dated by the database', async () => {
    await acquireLease(on, secret, { namespace: ['json'], key: 'a' });
    await acquireLease(on, secret, { namespace: ['json', 'b'], key: 'b' });

    const { status, headers, text } = await download(on, 'leases?namespace=json', secret);

    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(headers.get('content-disposition')).toMatch(
      /^attachment; filename="leasehold-leases-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json"$/u,
    );
    expect(JSON.parse(text)).toMatchObject([
      { namespace: 'json', name: 'a', phase: 'held' },
      { namespace: 'json.b', name: 'b' },
    ]);
    expect(text.trimEnd().split('\n')).toHaveLength(4);
  });

  test('takes the filters of its list, and an empty one is a file too', async () => {
    await acquireLease(on, secret, { namespace: ['filtered'], key: 'a' });
    await acquireLease(on, secret, { namespace: ['filtered', 'child'], key: 'b' });
    const names = async (query: string): Promise<string[]> => {
      const { text } = await download(on, `leases?${query}`, secret);
      return (JSON.parse(text) as { name: string }[]).map(({ name }) => name);
    };

    expect(await names('namespace=filtered&includeChildren=false')).toEqual(['a']);
    expect(await names('namespace=filtered&sort=name&direction=desc')).toEqual(['b', 'a']);
    expect(await names('namespace=filtered&phase=free')).toEqual([]);
    expect(await names('namespace=filtered&endedWithinMs=60000')).toEqual(['a', 'b']);
    expect((await download(on, 'environments?format=csv&action=nothing', secret)).text).toMatch(
      /^namespace,name,action,phase,[^\n]*metadata\r\n$/u,
    );
  });

  test('as CSV has a line of names, quotes what must be, and starts no formula', async () => {
    const lease = await acquireLease(on, secret, {
      namespace: ['csv'],
      key: '=1+1',
      holder: '@sum',
      comment: 'says "yes", twice',
      metadata: { n: [1, true] },
    });
    for (const [index, sign] of ['+', '-'].entries()) {
      await acquireLease(on, secret, { namespace: ['csv'], key: `${sign}${String(index)}` });
    }

    const { headers, text } = await download(on, 'leases?format=csv&namespace=csv', secret);

    const [names = '', ...lines] = text.split('\r\n');
    expect(headers.get('content-type')).toContain('text/csv');
    expect(names.split(',').slice(0, 5)).toEqual([
      'namespace',
      'name',
      'action',
      'phase',
      'leaseId',
    ]);
    expect(lines.map((line) => line.split(',')[1])).toEqual(["'+0", "'-1", "'=1+1", undefined]);
    expect(lines[2]).toContain(`,${lease.fencingToken},'@sum,`);
    expect(lines[2]).toContain(`,true,`);
    expect(lines[2]).toContain('"says ""yes"", twice","{""n"":[1,true]}"');
  });

  test('of events begins with the oldest, and takes an instant, an id and kinds', async () => {
    const lease = await acquireLease(on, secret, { namespace: ['told'], key: 'k' });
    await mutate(on, 'leases.release', { secret, input: refOf(lease) });
    const events = async (query: string): Promise<Event[]> =>
      JSON.parse((await download(on, `events?namespace=told${query}`, secret)).text) as Event[];

    const told = await events('');
    const [first, second] = told;

    expect(told.map(({ kind }) => kind)).toEqual(['granted', 'released']);
    expect(await events(`&afterId=${first?.id ?? ''}`)).toEqual([second]);
    expect(await events('&kinds=granted,failed')).toEqual([first]);
    expect(await events('&kinds=granted&kinds=released')).toEqual(told);
    expect(await events(`&to=${first?.at ?? ''}`)).toEqual([]);
    expect(await events(`&from=${first?.at ?? ''}`)).toEqual(told);
  });

  test('of the audit is for operators, and names what each act was on', async () => {
    const { leaseId } = await acquireLease(on, secret, { namespace: ['audited'], key: 'k' });
    const input = { leaseId, mode: 'force', reason: 'stuck' };
    await mutate(on, 'leases.revoke', { secret: operator, input });

    const refused = await call(on, '/export/audit', { secret });
    const by = async (query: string): Promise<unknown> =>
      JSON.parse((await download(on, `audit?${query}`, operator)).text);

    expect(refused.status).toBe(403);
    expect(refused.body.error?.data.leaseholdCode).toBe('auth.forbidden');
    const entry = {
      action: 'leases.revoke',
      reason: 'stuck',
      source: '127.0.0.1',
      resource: `lease:${leaseId}`,
      detail: { mode: 'force', face: 'lease', namespace: 'audited', name: 'k' },
    };
    expect(await by(`resource=${leaseId}`)).toMatchObject([entry]);
    expect(await by(`resource=lease:${leaseId}`)).toMatchObject([entry]);
    expect(await by('resource=k&action=leases.revoke')).toMatchObject([entry]);
    expect(await by(`resource=${leaseId}&actor=nobody`)).toEqual([]);
  });

  test('shows who is limited to namespaces those alone', async () => {
    await acquireLease(on, secret, { namespace: ['limited'], key: 'seen' });
    await acquireLease(on, secret, { namespace: ['limited2'], key: 'unseen' });
    const limited = await on.token('viewer', { namespaces: ['limited'] });

    const { text } = await download(on, 'leases', limited.secret);

    expect((JSON.parse(text) as { name: string }[]).map(({ name }) => name)).toEqual(['seen']);
  });

  test.each([
    ['an unknown field', 'keys?colour=red', 'colour: is not a known field'],
    ['a cursor', 'keys?cursor=x', 'cursor: is not a filter'],
    ['an unknown phase', 'keys?phase=lost', 'phase: '],
    ['a word for yes or no', 'keys?includeChildren=yes', 'includeChildren: '],
    ['no number', 'keys?endedWithinMs=soon', 'endedWithinMs: '],
    ['a field given twice', 'keys?name=a&name=b', 'name: '],
    ['an invalid instant', 'events?from=yesterday', 'from: must be an ISO-8601 instant'],
    ['the year 0', 'audit?from=0000-01-01T00:00:00Z', 'from: must be an instant after the year 0'],
    ['an invalid event id', 'events?afterId=x', 'afterId: must be the id of an event'],
    ['another format', 'keys?format=xml', 'format: must be "json" or "csv"'],
  ])('%s is refused by its name, before a byte is sent', async (_what, path, message) => {
    const answer = await call(on, `/export/${path}`, { secret: operator });

    expect(answer.status).toBe(400);
    expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
    expect(answer.body.error?.message).toContain(message);
  });

  test.each([
    ['without a token', '/export/keys', undefined, 'GET', 401],
    ['of an unknown list', '/export/secrets', 'operator', 'GET', 404],
    ['of an inherited name', '/export/constructor', 'operator', 'GET', 404],
    ['by POST', '/export/keys', 'operator', 'POST', 404],
  ] as const)('%s does not exist', async (_what, path, role, method, status) => {
    const asked = role === undefined ? {} : { secret: (await on.token(role)).secret };

    expect((await call(on, path, { ...asked, method })).status).toBe(status);
  });
});

/** Rows of about a kilobyte each: more than what lies between a server and a client that stands still. */
const LONG_ROWS = 20_000;

interface LongExport {
  readonly on: TestController;
  readonly secret: string;
  /** An answer whose head has come, and of whose body nothing was taken yet. */
  readonly response: http.IncomingMessage;
}

async function openLong(role: Role = 'viewer'): Promise<LongExport & { tokenId: string }> {
  const on = await startTestController();
  await seedLeases(on, LONG_ROWS);
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
 * An export over HTTP/1.0 that waits for the database, of which everything that was sent was taken.
 * `act` happens while it waits, in the transaction that it waits for.
 */
async function standStill(
  act: (
    tx: Parameters<Parameters<Prisma['$transaction']>[0]>[0],
    raw: RawExport,
  ) => Promise<unknown>,
): Promise<RawExport> {
  const on = await startTestController();
  await seedLeases(on, LONG_ROWS);
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
  const { prisma } = on.controller.store;
  await prisma.$transaction(
    async (tx) => {
      await tx.$executeRaw`lock table lease in access exclusive mode`;
      socket.resume();
      await waitUntil(async () => (await lockWaiters(prisma)) > 0, { what: 'the export waits' });
      await act(tx, raw);
    },
    { timeout: 20_000 },
  );
  return raw;
}

type Prisma = TestController['controller']['store']['prisma'];

async function lockWaiters(prisma: Prisma): Promise<number> {
  const rows = await prisma.$queryRaw<{ count: number }[]>`
    select count(*)::int as count
    from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
      and query like ${PAGE_QUERY}`;
  return rows[0]?.count ?? 0;
}

/** Of the statement that reads a page; PostgreSQL shows the first 1,024 characters of a statement. */
const PAGE_QUERY = '%as "isOnPage"%';

/** Until the export reads nothing any more, because nobody takes what it has. */
async function untilStill({ on }: Pick<LongExport, 'on'>): Promise<void> {
  const isStill = async (): Promise<boolean> => {
    const rows = await on.controller.store.prisma.$queryRaw<{ isStill: boolean }[]>`
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

    const rows = 'text' in all ? (JSON.parse(all.text) as { name: string }[]) : [];
    expect(rows).toHaveLength(LONG_ROWS);
    expect(new Set(rows.map(({ name }) => name)).size).toBe(LONG_ROWS);
  });

  test('reads on only as its client takes what there is', async () => {
    const long = await openLong();
    await untilStill(long);
    // What was not read by now is not there any more.
    await long.on.controller.store.prisma.$executeRaw`delete from lease`;

    const all = await rest(long);

    const rows = 'text' in all ? (JSON.parse(all.text) as unknown[]) : [];
    expect(rows.length).toBeGreaterThanOrEqual(500);
    expect(rows.length).toBeLessThan(LONG_ROWS);
  });

  test('that fails in the middle is cut off, and not taken for a whole one', async () => {
    const long = await openLong();
    await untilStill(long);
    await long.on.controller.store.prisma.$executeRaw`alter table lease rename to gone`;

    expect(await rest(long)).toEqual({ cutOff: 'ECONNRESET' });
  });

  test('over HTTP/1.0 that fails does not end as a whole one does', async () => {
    const { why } = await standStill(
      async (tx) => tx.$executeRaw`alter table lease rename to gone`,
    );

    expect(await why).toBe('ECONNRESET');
  });

  test('over HTTP/1.0 that loses its token is cut off at once, whatever it waits for', async () => {
    const { why } = await standStill(async (_tx, { on, tokenId, why }) => {
      await (await on.client('admin')).tokens.revoke.mutate({ tokenId });
      await why;
    });

    expect(await why).toBe('ECONNRESET');
  });

  test('is cut off with the token that it was asked for with', async () => {
    const long = await openLong();
    await untilStill(long);
    const admin = await long.on.client('admin');

    await admin.tokens.revoke.mutate({ tokenId: long.tokenId });

    expect(await rest(long)).toEqual({ cutOff: 'ECONNRESET' });
  });

  test('keeps its place among a few until its client is gone', async () => {
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

  test('leaves places to others: one caller has two at most', async () => {
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
