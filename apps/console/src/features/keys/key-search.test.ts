import { describe, expect, it } from 'vitest';
import { parseSearch } from '~/lib/search/search.ts';
import { KEY_FIELDS, keyListInput, keySearchProblems } from './key-search.ts';

const inputOf = (q: string) =>
  keyListInput({
    search: parseSearch(q, KEY_FIELDS),
    sort: 'name',
    direction: 'asc',
    after: null,
  });
const problemsOf = (q: string) => keySearchProblems(parseSearch(q, KEY_FIELDS));

describe('keyListInput', () => {
  it('asks for what every field of the search says', () => {
    const q = 'room- holder:drone-1 phase:held tag:v1 drone:drone-1 namespace:rooms.eu';
    expect(inputOf(q)).toMatchObject({
      prefix: 'room-',
      holder: 'drone-1',
      phase: 'held',
      tag: 'v1',
      droneId: 'drone-1',
      namespace: 'rooms.eu',
      includeChildren: true,
    });
  });

  it('asks for a whole name in quotes, and for the key of a grant', () => {
    expect(inputOf('"room-1"')).toMatchObject({ name: 'room-1' });
    const leaseId = '0198c0de-0000-7000-8000-000000000001';
    expect(inputOf(`lease:${leaseId}`)).toMatchObject({ leaseId });
  });
});

describe('keySearchProblems', () => {
  it('names the field and what it may be', () => {
    expect(problemsOf('phase:gone')).toEqual([
      'phase: is one of free, held, expiring, expired, any',
    ]);
    expect(problemsOf('lease:12')).toEqual(['lease: is a whole lease id']);
    expect(problemsOf('room- phase:held')).toEqual([]);
  });
});
