import { KEY_LADDERS } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import { ladderFindings } from './examine.ts';

test('reports controllers that give keys different ladders, and nothing when they agree', () => {
  const { standard, fast } = KEY_LADDERS;

  expect(ladderFindings([fast, standard])).toMatchObject([
    { state: 'unsure', text: expect.stringContaining('6 s and 60 s') as string },
  ]);
  expect(ladderFindings([standard])).toEqual([]);
});
