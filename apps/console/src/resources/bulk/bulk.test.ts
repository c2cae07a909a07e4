import { describe, expect, it } from 'vitest';
import { LIMITS } from '@leasehold/keys-core';
import type { GrantView } from '~/resources/grant-view.ts';
import { heldKeyForTest } from '~/resources/grant-for-test.ts';
import {
  bulkProgressText,
  bulkScope,
  bulkSteps,
  bulkTitle,
  HELD_ALONE,
  lookAgainMs,
  matchingInput,
  readingOf,
  readMatching,
  selectionText,
  selectLabel,
  stopNote,
  stoppingText,
  worstCaseText,
} from './bulk.ts';

describe('texts of bulk actions', () => {
  it('name the act and the count', () => {
    expect(bulkTitle('revoke', 'key', 3)).toBe('Revoke 3 keys');
    expect(bulkTitle('blockRenewal', 'lease', 1)).toBe('Block renewal of 1 lease');
  });

  it('do not count a failure as done', () => {
    const progress = { action: 'revoke', total: 40, done: 14, failedCount: 2 } as const;
    expect(bulkProgressText(progress)).toBe('12 of 40 revoked, 2 failed');
  });

  it('say how much of a selection is held, and that the rest is skipped', () => {
    const text = (face: 'key' | 'lease', selected: number, held: number) =>
      selectionText(face, { selected, held, isCounted: true });
    expect(text('key', 12, 2)).toBe(
      '2 of 12 selected are held. Grants that have ended are skipped.',
    );
    expect(text('lease', 3, 3)).toBe('All 3 selected are held.');
    expect(text('key', 1, 1)).toBe('The selected key is held.');
    expect(text('key', 2, 0)).toBe('None of the 2 selected keys is held.');
    expect(text('key', 0, 0)).toBe('Nothing is held.');
  });

  it('do not say as if counted what could not be counted', () => {
    expect(selectionText('lease', { selected: 12, held: 12, isCounted: false })).toBe(
      'Not counted. As last shown: All 12 selected are held.',
    );
  });

  it('say by when everything has stopped', () => {
    expect(worstCaseText('key', 2, 50_000)).toMatch(/^All backends stop within 50 s at worst/u);
    expect(stoppingText('lease', 1, 3_200)).toBe(
      'Waiting for 1 holder to stop, within 3 s at worst.',
    );
  });

  it('say that every act applies to the listed grants alone', () => {
    for (const action of ['revoke', 'blockRenewal', 'allowRenewal'] as const) {
      expect(bulkSteps(action, 'key', 'force').at(-1)).toContain('Only the listed grants');
    }
  });
});

describe('bulkScope', () => {
  it('is the whole list where that is of this datacenter', () => {
    for (const listed of [undefined, 'dc1']) {
      expect(bulkScope(listed, 'dc1')).toEqual({ whyNot: undefined, place: '' });
    }
  });

  it('is named where the list has rows of other datacenters beside', () => {
    expect(bulkScope('all', 'dc1')).toEqual({ whyNot: undefined, place: ' in dc1' });
  });

  it('is nothing of a list of another datacenter', () => {
    expect(bulkScope('dc2', 'dc1').whyNot).toMatch(/one datacenter/u);
  });
});

it('a bulk action that nobody knows or may see is not asked for again', () => {
  expect(lookAgainMs(undefined, null)).toBeGreaterThan(0);
  expect(lookAgainMs(undefined, { isRetryable: true })).toBeGreaterThan(0);
  expect(lookAgainMs(undefined, { isRetryable: false })).toBe(false);
});

describe('everything that a search finds', () => {
  const max = LIMITS.bulkItemsMax;
  const grants = (count: number, stem: string, changes: Partial<GrantView> = {}): GrantView[] =>
    Array.from({ length: count }, (_, at) =>
      heldKeyForTest({ leaseId: `${stem}-${String(at)}`, ...changes }),
    );
  const ROOMS = { namespace: 'rooms' };
  const ended = (count: number) => grants(count, 'ended', { endReason: 'released', phase: 'free' });

  /** Reads a list of these pages. */
  const read = (
    pages: readonly (readonly GrantView[])[],
    of: Parameters<typeof readMatching>[1] = {},
  ) =>
    readMatching((cursor) => {
      const at = Number(cursor ?? 0);
      const nextCursor = at + 1 < pages.length ? String(at + 1) : null;
      return Promise.resolve({ items: pages[at] ?? [], nextCursor });
    }, of);

  it('has what is held behind more that has ended than one action may have', async () => {
    const found = await read([ended(max), grants(2, 'held')], HELD_ALONE);
    expect(found?.items.map(({ leaseId }) => leaseId)).toEqual(['held-0', 'held-1']);
    expect(found?.isCut).toBe(false);
  });

  it('is cut where more is held than one action may have, not where more is listed', async () => {
    const cut = await read([grants(max, 'held'), grants(1, 'more')], HELD_ALONE);
    expect(cut).toMatchObject({ isCut: true });
    expect(cut?.items).toHaveLength(max);
    await expect(
      read([[...ended(max), ...grants(max, 'held')]], HELD_ALONE),
    ).resolves.toMatchObject({ isCut: false });
  });

  it('is not cut by pages that end early, however many there are', async () => {
    const pages = Array.from({ length: 300 }, (_, at) => grants(32, `page-${String(at)}`));
    const found = await read(pages);
    expect(found?.items).toHaveLength(9_600);
    expect(found?.isCut).toBe(false);
  });

  it('is cut after many more rows than one action may have, whatever they are', async () => {
    const pages = Array.from({ length: 11 }, () => ended(max));
    const found = await read([...pages, grants(1, 'held')], HELD_ALONE);
    expect(found).toEqual({ items: [], isCut: true });
  });

  it('names each grant once, also one that was listed on two pages', async () => {
    const found = await read([grants(2, 'held'), grants(3, 'held')]);
    expect(found?.items.map(({ leaseId }) => leaseId)).toEqual(['held-0', 'held-1', 'held-2']);
  });

  it('is nothing once nobody waits for it any more', async () => {
    const counts: number[] = [];
    const onPage = (count: number): boolean => counts.push(count) < 2;
    await expect(read([ended(3), ended(3), ended(3)], { onPage })).resolves.toBeUndefined();
    expect(counts).toEqual([3, 6]);
  });

  it('is read in an order in which a renewal moves no row, and here', () => {
    const listed = { ...ROOMS, sort: 'expiresAt', direction: 'desc', datacenter: 'all' } as const;
    const here = { ...ROOMS, sort: 'name', direction: 'asc', datacenter: undefined };
    expect(matchingInput(listed)).toEqual({ ...here, limit: LIMITS.pageSizeMax });
    expect(matchingInput(listed, HELD_ALONE)).toMatchObject({ ...here, endedWithinMs: 0 });
  });

  it('begins with what the list shows first, or says by what else', () => {
    const many = { count: max + 1, isExact: true };
    for (const sort of ['name', 'grantedAt'] as const) {
      const listed = { ...ROOMS, sort, direction: 'desc' } as const;
      expect(matchingInput(listed)).toMatchObject({ sort, direction: 'desc' });
      expect(selectLabel(many, listed, '')).toBe('Select the first 10,000 that match');
    }
    const moving = { ...ROOMS, sort: 'expiresAt' } as const;
    expect(selectLabel(many, moving, '')).toBe('Select the first 10,000 by name that match');
    const few = { count: 120, isExact: true };
    expect(selectLabel(few, moving, ' in dc1')).toBe('Select all 120 in dc1 that match');
  });

  it('is of one search, whichever of its pages is shown', () => {
    expect(readingOf({ ...ROOMS, cursor: 'b' } as typeof ROOMS)).toBe(readingOf(ROOMS));
    expect(readingOf({ namespace: 'jobs' })).not.toBe(readingOf(ROOMS));
    expect(readingOf({ ...ROOMS, datacenter: 'dc2' })).not.toBe(readingOf(ROOMS));
  });

  it('is another one in another order of the list, but where that does not matter', () => {
    const newest = { ...ROOMS, sort: 'grantedAt', direction: 'desc' } as const;
    expect(readingOf(newest)).not.toBe(readingOf({ ...newest, direction: 'asc' }));
    expect(readingOf(newest, HELD_ALONE)).toBe(readingOf(ROOMS, HELD_ALONE));
  });

  it('is stopped after its namespace was named, and what is left of it', () => {
    const namespace = 'rooms';
    const found = { items: grants(3, 'held'), isCut: false };
    expect(stopNote({ namespace }, found, undefined)).toBe('The search is of the namespace rooms.');
    const note = stopNote({ namespace, includeChildren: true }, { ...found, isCut: true }, 'dc1');
    expect(note).toMatch(/^The search is of the namespace rooms and below\. Those of dc1 alone/u);
    expect(note).toContain('the first 3: do it again for the rest when these have ended');
  });
});
