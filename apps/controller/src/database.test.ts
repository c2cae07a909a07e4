import type { DatabaseSettings } from '@leasehold/keys-core/postgres';
import { describe, expect, test } from 'vitest';
import { checkDatabase } from './database.ts';

const GOOD: DatabaseSettings = {
  version: '18.0',
  versionNumber: 180_000,
  synchronousCommit: 'on',
  synchronousStandbyNames: '',
  standbyCount: 0,
  schema: 'leasehold',
  role: 'controller',
  statementTimeoutMs: 2_000,
  idleTimeoutMs: 5_000,
  isolation: 'read committed',
  isReadOnly: false,
  meaning: { DateStyle: 'ISO, DMY', TimeZone: 'Europe/Berlin', array_nulls: 'on' },
  refused: [],
};

describe('database checks', () => {
  test('a database that keeps what it has committed passes silently', () => {
    expect(checkDatabase(GOOD, 'leasehold')).toEqual([]);
    expect(checkDatabase({ ...GOOD, versionNumber: 150_000 }, 'leasehold')).toEqual([]);
  });

  test.each(['off', 'local'])('synchronous_commit %s stops the start', (synchronousCommit) => {
    expect(() => checkDatabase({ ...GOOD, synchronousCommit }, 'leasehold')).toThrow(
      /synchronous_commit/u,
    );
  });

  test('an old PostgreSQL stops the start, and all problems are reported at once', () => {
    const settings = { ...GOOD, version: '14.9', versionNumber: 140_009, synchronousCommit: 'off' };

    expect(() => checkDatabase(settings, 'leasehold')).toThrow(
      /PostgreSQL 15 or later.*synchronous_commit/su,
    );
  });

  test('connections that search another schema stop the start, and the problem names the pooler', () => {
    expect(() => checkDatabase({ ...GOOD, schema: 'public' }, 'leasehold')).toThrow(
      /"leasehold".*"public".*pooler/u,
    );
    expect(() => checkDatabase({ ...GOOD, schema: null }, 'leasehold')).toThrow(/USAGE/u);
  });

  test.each([
    [{ statementTimeoutMs: 0 }, /statement_timeout is off: a pooler/u],
    [{ statementTimeoutMs: 2_500 }, /statement_timeout is 2500 ms, and may be 2000 ms at most/u],
    [{ idleTimeoutMs: 0 }, /idle_in_transaction_session_timeout is off: a pooler/u],
    [{ meaning: { DateStyle: 'SQL, DMY' } }, /DateStyle is "SQL, DMY": a pooler/u],
    [{ meaning: { array_nulls: 'off' } }, /array_nulls is "off"/u],
    [
      { meaning: { session_replication_role: 'replica' } },
      /session_replication_role is "replica"/u,
    ],
    [{ meaning: { transaction_timeout: '50' } }, /transaction_timeout is "50"/u],
    [{ isolation: 'repeatable read' }, /default_transaction_isolation is "repeatable read"/u],
  ])(
    'F13 settings that a pooler has dropped stop the start, and are named: %j',
    (other, problem) => {
      expect(() => checkDatabase({ ...GOOD, ...other }, 'leasehold')).toThrow(problem);
    },
  );

  test('a role without privileges on a table stops the start, and the problem names the table', () => {
    expect(() => checkDatabase({ ...GOOD, refused: ['lease'] }, 'leasehold')).toThrow(
      /role controller may not use lease;/u,
    );
  });

  test('a standby that no commit waits for gives a warning', () => {
    expect(checkDatabase({ ...GOOD, standbyCount: 1 }, 'leasehold')).toHaveLength(1);
    expect(
      checkDatabase({ ...GOOD, standbyCount: 1, synchronousStandbyNames: '*' }, 'leasehold'),
    ).toEqual([]);
  });
});
