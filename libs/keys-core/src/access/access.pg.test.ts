import { randomUUID } from 'node:crypto';
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { openKernel } from '../testing/kernel-fixture.ts';
import { encodeCursor } from '../postgres/paging.ts';
import type { Store } from '../postgres/open-store.ts';
import type { RecordSql } from '../postgres/records.ts';
import {
  findToken,
  hashTokenSecret,
  insertToken,
  isTokenSecret,
  listTokens,
  type NewToken,
  newTokenSecret,
  readToken,
  revokeToken,
  tokensInForce,
} from './sql/api-tokens.ts';
import { listAudit, writeAudit } from './sql/audit.ts';
import { bootstrapCredentials, makeFirstToken } from './sql/bootstrap.ts';
import { createTokenAuthority, TOKENS_TOPIC } from './token-service.ts';

async function aToken(sql: RecordSql, change: Partial<NewToken> = {}): Promise<NewToken> {
  const token: NewToken = {
    tokenId: randomUUID(),
    secret: newTokenSecret(),
    name: 'test',
    role: 'viewer',
    namespaces: null,
    droneId: null,
    createdBy: 'test',
    expiresAt: null,
    ...change,
  };
  await insertToken(sql, token);
  return token;
}

/** A store that begins to listen sends a hint to every listener; this waits until it has. */
async function listening(store: Store): Promise<void> {
  let toldCount = 0;
  const off = store.hints.on('probe', () => {
    toldCount += 1;
  });
  store.hints.notify('probe');
  await waitUntil(() => toldCount >= 2);
  off();
}

async function aFolder(): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-credentials-'));
  onTestFinished(() => rm(folder, { recursive: true, maxRetries: 10 }));
  return folder;
}

describe('API tokens', () => {
  test('the database has a hash of the secret, and nowhere the secret itself', async () => {
    const { store } = await openKernel();
    const { secret } = await aToken(store.general);

    const rows = await store.general.$queryRaw<
      { row: string }[]
    >`select t::text as row from api_token t`;

    expect(rows.map(({ row }) => row).join()).toContain(hashTokenSecret(secret));
    expect(rows.map(({ row }) => row).join()).not.toContain(secret.slice(3));
  });

  test('a token keeps its bindings, and an empty list is no binding', async () => {
    const { store } = await openKernel();
    const bindings = {
      programs: ['room'],
      capacity: 5,
      addresses: ['10.0.0.0/8:21000'],
      limits: { streams: 3 },
    };
    const bound = await aToken(store.general, { role: 'drone', droneId: 'd1', ...bindings });
    const free = await aToken(store.general, { programs: [], addresses: [] });

    expect(await findToken(store.general, hashTokenSecret(bound.secret))).toMatchObject(bindings);
    expect(await readToken(store.general, bound.tokenId)).toMatchObject(bindings);
    expect(await findToken(store.general, hashTokenSecret(free.secret))).toMatchObject({
      programs: null,
      capacity: null,
      addresses: null,
      limits: null,
    });
    expect(await readToken(store.general, randomUUID())).toBeUndefined();
  });

  test('a thousand secrets that arrive at once are looked up by a few statements', async () => {
    const { store } = await openKernel();
    const good = await aToken(store.general);
    let statementCount = 0;
    const counting: Pick<Store, 'vital' | 'hints' | 'clock'> = {
      hints: store.hints,
      clock: store.clock,
      vital: new Proxy(store.vital, {
        get(target, name) {
          if (name === '$queryRaw') statementCount += 1;
          return Reflect.get(target, name) as unknown;
        },
      }),
    };
    const authority = createTokenAuthority(counting);
    onTestFinished(() => {
      authority.close();
    });

    const secrets = [good.secret, ...Array.from({ length: 1_000 }, () => newTokenSecret())];
    const found = await Promise.all(secrets.map((secret) => authority.authenticate(secret)));

    expect(found.filter((access) => access !== undefined)).toHaveLength(1);
    expect(found[0]?.tokenId).toBe(good.tokenId);
    expect(statementCount).toBeLessThanOrEqual(5);
  });

  test('a token is in force until it is revoked or has expired by the database clock', async () => {
    const { store } = await openKernel();
    const revoked = await aToken(store.general);
    const expired = await aToken(store.general);
    const good = await aToken(store.general, { namespaces: ['a'] });
    expect(await revokeToken(store.general, revoked.tokenId)).toMatchObject({ changed: true });
    expect(await revokeToken(store.general, revoked.tokenId)).toMatchObject({ changed: false });
    await store.general.$queryRaw`
      update api_token set expires_at = clock_timestamp() where id = ${expired.tokenId}::uuid returning id::text`;

    expect(await findToken(store.general, hashTokenSecret(revoked.secret))).toBeUndefined();
    expect(await findToken(store.general, hashTokenSecret(expired.secret))).toBeUndefined();
    expect(await findToken(store.general, hashTokenSecret(good.secret))).toMatchObject({
      namespaces: ['a'],
    });
    expect(
      await tokensInForce(store.general, [revoked.tokenId, expired.tokenId, good.tokenId]),
    ).toEqual(new Set([good.tokenId]));
  });

  test.each([
    ['no instant', ['1', randomUUID()]],
    ['no id', ['2030-01-01T00:00:00.000Z', 'x']],
    ['an instant out of range', ['+275760-09-13T00:00:00.000Z', randomUUID()]],
  ])('a cursor with %s is refused as an invalid request', async (_what, place) => {
    const { store } = await openKernel();

    await expect(
      listTokens(store.general, { limit: 5, cursor: encodeCursor(place) }),
    ).rejects.toMatchObject({ code: 'request.invalid' });
  });

  test('a token that would already have expired is not made', async () => {
    const { store } = await openKernel();

    await expect(
      aToken(store.general, { expiresAt: '2001-01-01T00:00:00Z' }),
    ).rejects.toMatchObject({
      code: 'request.invalid',
    });
    expect((await listTokens(store.general, { limit: 5 })).items).toEqual([]);
  });

  test('the authority answers from memory, and forgets at a hint', async () => {
    const { store } = await openKernel();
    await listening(store);
    const authority = createTokenAuthority(store);
    onTestFinished(() => {
      authority.close();
    });
    const { secret, tokenId } = await aToken(store.general);
    expect(await authority.authenticate(secret)).toMatchObject({ tokenId });

    await revokeToken(store.general, tokenId);
    expect(await authority.authenticate(secret)).toMatchObject({ tokenId });
    store.hints.notify(TOKENS_TOPIC);
    expect(await authority.authenticate(secret)).toBeUndefined();
  });

  test('however many wrong secrets come, a good one is answered from memory', async () => {
    const { store } = await openKernel();
    await listening(store);
    const clock = { ...store.clock, nowMs: () => 1_000 };
    const authority = createTokenAuthority({ vital: store.vital, hints: store.hints, clock });
    onTestFinished(() => {
      authority.close();
    });
    const { secret, tokenId } = await aToken(store.general);
    const wrong = newTokenSecret();
    expect([authority.statusOf(secret), authority.statusOf(wrong)]).toEqual(['new', 'new']);
    await authority.authenticate(secret);
    await authority.authenticate(wrong);
    expect([authority.statusOf(secret), authority.statusOf(wrong)]).toEqual(['good', 'seen']);

    for (let group = 0; group < 101; group += 1) {
      await Promise.all(
        Array.from({ length: 100 }, () => authority.authenticate(newTokenSecret())),
      );
    }

    // The row is gone, so only memory can answer.
    await store.general
      .$queryRaw`delete from api_token where id = ${tokenId}::uuid returning id::text`;
    expect(await authority.authenticate(secret)).toMatchObject({ tokenId });
    expect([authority.statusOf(secret), authority.statusOf(wrong)]).toEqual(['good', 'new']);
  });

  test.each([
    '',
    'lh_',
    'lh_short',
    `${newTokenSecret()}x`,
    newTokenSecret().replace('lh_', 'LH_'),
    "lh_' or 1=1 --",
  ])('a malformed secret %j authenticates nobody', async (secret) => {
    const { store } = await openKernel();
    const authority = createTokenAuthority(store);
    onTestFinished(() => {
      authority.close();
    });

    expect(isTokenSecret(secret)).toBe(false);
    expect(await authority.authenticate(secret)).toBeUndefined();
  });

  test('the last use is recorded in the background', async () => {
    const { store } = await openKernel();
    const authority = createTokenAuthority(store);
    onTestFinished(() => {
      authority.close();
    });
    const { secret } = await aToken(store.general);
    await authority.authenticate(secret);
    expect((await listTokens(store.general, { limit: 1 })).items[0]?.lastUsedAt).toBeNull();

    await authority.flushLastUses();

    await waitUntil(
      async () => (await listTokens(store.general, { limit: 1 })).items[0]?.lastUsedAt,
    );
    expect((await listTokens(store.general, { limit: 1 })).items[0]?.lastUsedAt).toMatch(/Z$/u);
  });
});

describe('credentials file', () => {
  test('holds a token in force for each role, readable by its owner alone', async () => {
    const { store } = await openKernel();
    const file = path.join(await aFolder(), 'home', 'credentials.json');

    const made = await bootstrapCredentials(store, file, { droneIds: ['d1'] });

    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(made);
    for (const role of ['admin', 'operator', 'client', 'viewer', 'drone'] as const) {
      expect(await findToken(store.general, hashTokenSecret(made[role]))).toMatchObject({
        role,
        droneId: role === 'drone' ? 'd1' : null,
      });
    }
  });

  test('keeps valid secrets, replaces invalid ones, and leaves other entries alone', async () => {
    const { store } = await openKernel();
    const file = path.join(await aFolder(), 'credentials.json');
    const first = await bootstrapCredentials(store, file, { droneIds: ['d1'] });
    await writeFile(
      file,
      JSON.stringify({ ...first, client: 'nonsense', console: { email: 'a@b' } }),
    );
    const viewer = await findToken(store.general, hashTokenSecret(first.viewer));
    await revokeToken(store.general, viewer?.tokenId ?? '');

    const second = await bootstrapCredentials(store, file, { droneIds: ['d1'] });

    expect(second).toMatchObject({
      admin: first.admin,
      operator: first.operator,
      drone: first.drone,
    });
    expect(second.client).not.toBe(first.client);
    expect(second.viewer).not.toBe(first.viewer);
    expect(JSON.parse(await readFile(file, 'utf8'))).toMatchObject({ console: { email: 'a@b' } });
  });

  test("a drone's token with other bindings is replaced, and no longer in force", async () => {
    const { store } = await openKernel();
    const file = path.join(await aFolder(), 'credentials.json');
    const bindings = { programs: ['room'], capacity: 1, addresses: ['127.0.0.0/8'] };
    const unbound = await bootstrapCredentials(store, file, { droneIds: ['d1'] });

    const bound = await bootstrapCredentials(store, file, { droneIds: ['d1'], bindings });
    const again = await bootstrapCredentials(store, file, { droneIds: ['d1'], bindings });

    expect(await findToken(store.general, hashTokenSecret(unbound.drone))).toBeUndefined();
    expect(await findToken(store.general, hashTokenSecret(bound.drone))).toMatchObject(bindings);
    expect(again).toEqual(bound);
  });

  test("a drone's token for another drone is replaced, and no longer in force", async () => {
    const { store } = await openKernel();
    const file = path.join(await aFolder(), 'credentials.json');
    const first = await bootstrapCredentials(store, file, { droneIds: ['d1'] });

    const second = await bootstrapCredentials(store, file, { droneIds: ['d2'] });

    expect(await findToken(store.general, hashTokenSecret(first.drone))).toBeUndefined();
    expect(await findToken(store.general, hashTokenSecret(second.drone))).toMatchObject({
      droneId: 'd2',
    });
  });

  test('a truncated file is created again', async () => {
    const { store } = await openKernel();
    const file = path.join(await aFolder(), 'credentials.json');
    await writeFile(file, '{"admin": "lh_');

    const made = await bootstrapCredentials(store, file, { droneIds: [] });

    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(made);
  });
});

describe('the first token', () => {
  test('is made once, by one of several controllers at once, and stays revoked', async () => {
    const { store } = await openKernel();
    const [secret, other] = [newTokenSecret(), newTokenSecret()];

    const made = await Promise.all([makeFirstToken(store, secret), makeFirstToken(store, secret)]);
    const found = await findToken(store.general, hashTokenSecret(secret));
    const again = await makeFirstToken(store, other);
    await revokeToken(store.general, found?.tokenId ?? '');
    const revived = await makeFirstToken(store, secret);

    expect(made.sort()).toEqual([false, true]);
    expect(found).toMatchObject({ role: 'admin', droneId: null, namespaces: null });
    expect([again, revived]).toEqual([false, false]);
    expect(await findToken(store.general, hashTokenSecret(secret))).toBeUndefined();
    // Nobody administers any more: another secret may.
    expect(await makeFirstToken(store, other)).toBe(true);
  });
});

describe('audit', () => {
  test('is listed newest first, page by page, and filtered', async () => {
    const { store } = await openKernel();
    const acts = ['drones.drain', 'drones.undrain', 'drones.drain'] as const;
    for (const action of acts) {
      await writeAudit(store.general, {
        actor: 'ann',
        role: 'operator',
        action,
        resource: 'drone:d1',
        detail: { n: 1 },
      });
    }

    const first = await listAudit(store.general, { limit: 2 });
    const second = await listAudit(store.general, { limit: 2, cursor: first.nextCursor ?? '' });
    const filtered = await listAudit(store.general, {
      limit: 9,
      action: 'drones.drain',
      actor: 'ann',
      from: '2001-01-01T00:00:00Z',
    });

    expect([...first.items, ...second.items].map((entry) => entry.action)).toEqual(acts);
    expect(second.nextCursor).toBeNull();
    expect(filtered.items).toHaveLength(2);
    expect(
      (await listAudit(store.general, { limit: 9, to: '2001-01-01T00:00:00Z' })).items,
    ).toEqual([]);
  });
});
