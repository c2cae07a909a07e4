import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { keyIdOf } from './reservation.ts';

describe('the id of a key', () => {
  test('differs for one name in two namespaces, and for names and namespaces that look the same when joined', async () => {
    const ids = await Promise.all(
      [
        { namespace: 'team-a', name: 'X' },
        { namespace: 'team-b', name: 'X' },
        { namespace: '', name: 'X' },
        { namespace: 'a.b', name: 'c' },
        { namespace: 'a', name: 'b.c' },
        { namespace: '', name: 'a.b.c' },
      ].map(keyIdOf),
    );

    expect(new Set(ids).size).toBe(ids.length);
  });

  test('never changes: stores are named by it', async () => {
    const text = 'leasehold.key-id.1\0team-a\0schlüssel 鍵';

    expect(await keyIdOf({ namespace: 'team-a', name: 'schlüssel 鍵' })).toBe(
      createHash('sha256').update(text).digest('hex'),
    );
    expect(await keyIdOf({ namespace: '', name: 'demo' })).toMatch(/^[0-9a-f]{64}$/u);
  });
});
