import { describe, expect, test } from 'vitest';
import type { DatabaseSettings } from '@leasehold/keys-core/store';
import { checkDatabase } from './database-checks.ts';

const GOOD: DatabaseSettings = {
  version: '18.0',
  versionNumber: 180_000,
  synchronousCommit: 'on',
  synchronousStandbyNames: '',
  standbyCount: 0,
};

describe('database checks', () => {
  test('a database that keeps what it has answered passes without a word', () => {
    expect(checkDatabase(GOOD)).toEqual([]);
    expect(checkDatabase({ ...GOOD, versionNumber: 150_000 })).toEqual([]);
  });

  test.each(['off', 'local'])('synchronous_commit %s stops the start', (synchronousCommit) => {
    expect(() => checkDatabase({ ...GOOD, synchronousCommit })).toThrow(/synchronous_commit/u);
  });

  test('an old PostgreSQL stops the start, and all problems are told at once', () => {
    const settings = { ...GOOD, version: '14.9', versionNumber: 140_009, synchronousCommit: 'off' };

    expect(() => checkDatabase(settings)).toThrow(/PostgreSQL 15 or later.*synchronous_commit/su);
  });

  test('a standby that nobody waits for is warned of', () => {
    expect(checkDatabase({ ...GOOD, standbyCount: 1 })).toHaveLength(1);
    expect(checkDatabase({ ...GOOD, standbyCount: 1, synchronousStandbyNames: '*' })).toEqual([]);
  });
});
