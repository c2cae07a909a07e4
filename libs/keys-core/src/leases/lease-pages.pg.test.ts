import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { OPERATOR } from '../testing/keys-fixture.ts';
import { acquired } from '../testing/lease-fixture.ts';
import { openOperatedLeases } from '../testing/lease-operations-fixture.ts';

const METADATA_BYTES = 16_000;
const LEASES = 70;
/** The most that a page may hold, with the row that exceeds its bound. */
const PAGE_BYTES_MAX = 512 * 1_024 + 2 * METADATA_BYTES;

test.each([
  ['compresses well', 'x'.repeat(METADATA_BYTES)],
  ['does not compress', randomBytes((METADATA_BYTES / 4) * 3).toString('base64')],
])(
  'a page of leases with large metadata that %s ends early, and the pages together show each lease once, whole',
  async (_how, text) => {
    const on = await openOperatedLeases();
    const names = Array.from(
      { length: LEASES },
      (_, nth) => `lease-${String(nth).padStart(3, '0')}`,
    );
    const metadata = { text };
    for (const name of names) await acquired(on, { name, metadata });

    const seen: string[] = [];
    const sizes: number[] = [];
    let cursor: string | undefined;
    do {
      const page = await on.operations.list({ limit: 500, cursor }, OPERATOR);
      seen.push(...page.items.map(({ name }) => name));
      sizes.push(JSON.stringify(page).length);
      expect(page.items.every((item) => item.metadata !== null)).toBe(true);
      cursor = page.nextCursor ?? undefined;
    } while (cursor !== undefined);

    expect(seen).toEqual(names);
    expect(sizes.length).toBe(3);
    expect(Math.max(...sizes)).toBeLessThan(PAGE_BYTES_MAX + LEASES * 1_024);
  },
);
