import { describe, expect, it } from 'vitest';
import {
  bulkProgressText,
  bulkScope,
  bulkSteps,
  bulkTitle,
  lookAgainMs,
  selectionText,
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
