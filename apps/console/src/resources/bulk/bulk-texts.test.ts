import { describe, expect, it } from 'vitest';
import { bulkProgressText, bulkSteps, bulkTitle } from './bulk-texts.ts';

describe('texts of bulk actions', () => {
  it('name the act and the count', () => {
    expect(bulkTitle('revoke', 'key', 3)).toBe('Revoke 3 keys');
    expect(bulkTitle('blockRenewal', 'lease', 1)).toBe('Block renewal of 1 lease');
  });

  it('do not count a failure as done', () => {
    const progress = { action: 'revoke', total: 40, done: 14, failedCount: 2 } as const;
    expect(bulkProgressText(progress)).toBe('12 of 40 revoked, 2 failed');
  });

  it('say that every act applies to the listed grants alone', () => {
    for (const action of ['revoke', 'blockRenewal', 'allowRenewal'] as const) {
      expect(bulkSteps(action, 'key', 'force').at(-1)).toContain('left alone');
    }
  });
});
