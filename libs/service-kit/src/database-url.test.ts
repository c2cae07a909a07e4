import { describe, expect, test } from 'vitest';
import { connectionOf, databasePlaceOf, plainDatabaseUrl, schemaProblem } from './database-url.ts';

describe('an address for other programs', () => {
  const path = '-c%20search_path%3Dlocks%2Cpg_temp';

  test.each([
    ['postgresql://u:a+b%2F@db/app?schema=locks', `postgresql://u:a+b%2F@db/app?options=${path}`],
    [
      'postgresql://db/app?sslmode=require&schema=locks&options=-c%20jit%3Doff',
      `postgresql://db/app?sslmode=require&options=-c%20jit%3Doff%20${path}`,
    ],
    ['postgresql://db/app?schema=locks&pgbouncer=true', 'postgresql://db/app'],
  ])('%s has the schema as libpq and pg read it', (url, plain) => {
    expect(plainDatabaseUrl(url)).toBe(plain);
    // It still works as DATABASE_URL.
    expect(connectionOf(plain).schema).toBe('leasehold');
  });
});

describe('the schema of a database', () => {
  test('is leasehold by default', () => {
    const place = databasePlaceOf({ DATABASE_URL: 'postgresql://db/app' });

    expect(place).toEqual({
      databaseUrl: 'postgresql://db/app?schema=leasehold',
      schema: 'leasehold',
      problems: [],
    });
  });

  test('is named by LEASEHOLD_SCHEMA, by the address, or the same by both', () => {
    const inUrl = 'postgresql://db/app?schema=locks';

    expect(databasePlaceOf({ LEASEHOLD_SCHEMA: 'locks' })).toMatchObject({
      databaseUrl: null,
      schema: 'locks',
    });
    expect(databasePlaceOf({ DATABASE_URL: inUrl }).schema).toBe('locks');
    expect(databasePlaceOf({ DATABASE_URL: inUrl, LEASEHOLD_SCHEMA: 'locks' }).problems).toEqual(
      [],
    );
  });

  test('is refused when the two differ', () => {
    const { problems } = databasePlaceOf({
      DATABASE_URL: 'postgresql://db/app?schema=locks',
      LEASEHOLD_SCHEMA: 'leasehold',
    });

    expect(problems).toEqual([
      'LEASEHOLD_SCHEMA: must be the schema that DATABASE_URL names, or be left out',
    ]);
  });

  test.each(['', 'Locks', '1locks', 'lo-cks', 'a,b', 'a"b', 'pg_temp', 'information_schema'])(
    'must not be called %j',
    (name) => {
      const url = `postgresql://db/app?schema=${encodeURIComponent(name)}`;

      expect(schemaProblem(name)).toBeDefined();
      expect(databasePlaceOf({ DATABASE_URL: url }).problems[0]).toMatch(
        /^DATABASE_URL: its schema/u,
      );
      expect(() => connectionOf(url)).toThrow(RangeError);
    },
  );

  test.each(['public', 'leasehold', 'locks_2', '_x', 'a'.repeat(40)])(
    'may be called %j',
    (name) => {
      expect(schemaProblem(name)).toBeUndefined();
    },
  );
});

describe('a connection', () => {
  test('searches only the schema, and keeps the rest of the address', () => {
    const url =
      'postgresql://me:p%40ss@db:5433/app?sslmode=require&schema=locks&options=-c%20jit%3Don';

    const { options, ...connection } = connectionOf(url, { lock_timeout: '1000' });

    expect(connection).toEqual({
      connectionString: 'postgresql://me:p%40ss@db:5433/app?sslmode=require',
      schema: 'locks',
      isPooled: false,
    });
    expect(options).toMatch(/^-c jit=on .*-c jit=off .*-c search_path=locks,pg_temp\b/u);
    expect(options.match(/-c lock_timeout=\S+/gu)).toEqual(['-c lock_timeout=1000']);
  });

  test('names each setting on which a statement depends, with its spaces as the server reads them', () => {
    const { options } = connectionOf('postgresql://db/app');

    expect(options).toContain(String.raw`-c DateStyle=ISO,\ MDY -c IntervalStyle=postgres `);
    expect(options).toContain(String.raw`-c default_transaction_isolation=read\ committed `);
  });

  test('F13 through a pooler in transaction mode has no settings of its own', () => {
    const url = 'postgresql://db/app?pgbouncer=true&schema=locks&options=-c%20jit%3Don';

    expect(connectionOf(url, { jit: 'off' })).toEqual({
      connectionString: 'postgresql://db/app',
      options: '',
      schema: 'locks',
      isPooled: true,
    });
  });
});
