import { describe, expect, test } from 'vitest';
import { boundedLabel } from './metrics.ts';

describe('metrics', () => {
  test('a label that callers choose has a bounded number of values: the rest is counted together', () => {
    const label = boundedLabel(2, 'other');

    expect(['a', 'b', 'c', 'a', 'd', 'b'].map(label)).toEqual([
      'a',
      'b',
      'other',
      'a',
      'other',
      'b',
    ]);
  });
});
