import { describe, expect, test } from 'vitest';
import { preparedOptions, UNPREPARED } from './prepared.ts';

describe('prepared statements', () => {
  test('each text has one name, different from that of other texts, and short enough for PostgreSQL', () => {
    const { nameOf } = preparedOptions('postgres://h/db');
    const names = ['select 1', 'select 2', 'select 1'].map((text) => nameOf?.(text) ?? '');

    expect(names[0]).toBe(names[2]);
    expect(new Set(names).size).toBe(2);
    for (const given of names) expect(given).toMatch(/^[a-z0-9_]{10,63}$/u);
  });

  test('are not used when the URL names a transaction pooler', () => {
    expect(preparedOptions('postgres://h/db?a=b&pgbouncer=true')).toBe(UNPREPARED);
    expect(preparedOptions('postgres://h/db?pgbouncer=false')).not.toBe(UNPREPARED);
  });
});
