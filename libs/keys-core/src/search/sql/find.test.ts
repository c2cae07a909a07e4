import { expect, test } from 'vitest';
import { idsInText } from './find.ts';

const NONE = { uuids: [], tokens: [], addresses: [], backendIds: [], holders: [] };
const ID = 'cdd59c40-138d-4480-a0c5-f014ff6f4161';

test.each([
  ['q4-roadmap', {}],
  [ID, { uuids: [ID] }],
  [ID.toUpperCase(), { uuids: [ID] }],
  [`lost lease ${ID}.`, { uuids: [ID] }],
  [
    `{"leaseId":"${ID}","fencingToken":"1795812116734"}`,
    { uuids: [ID], tokens: ['1795812116734'] },
  ],
  ['1795812116734', { tokens: ['1795812116734'] }],
  ['99999999999999999999', {}],
  ['2026-11-27T21:31:26.123Z took 12345 ms', {}],
  ['ECONNREFUSED 10.20.5.37:27236', { addresses: ['10.20.5.37:27236'] }],
  ['http://fra-7.example:4000/', { addresses: ['fra-7.example:4000'] }],
  ['[::1]:4000', { addresses: ['[::1]:4000'] }],
  ['backend bk-2d746bas7qdvne crashed', { backendIds: ['bk-2d746bas7qdvne'] }],
  ['holder=payments@pay-7:4242 expired', { holders: ['payments@pay-7:4242'] }],
  ['"payments@pay-7"', { holders: ['payments@pay-7'] }],
])('%s', (text, ids) => {
  expect(idsInText(text)).toEqual({ ...NONE, ...ids });
});

test('of a long text only the first ones of each kind', () => {
  const many = Array.from({ length: 9 }, (_, at) => String(1_795_812_116_000 + at));
  expect(idsInText(many.join(' ')).tokens).toEqual(many.slice(0, 5));
});
