import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import { KEY_FIELDS, keyListInput } from '~/resources/list/grant-search.ts';

test('every field of a search for keys is part of the request', () => {
  const q = 'room- holder:drone-1 phase:held tag:v1 drone:drone-1 namespace:rooms.eu';
  const search = parseSearch(q, KEY_FIELDS);

  expect(keyListInput({ search, sort: 'name', direction: 'asc', after: null })).toMatchObject({
    contains: 'room-',
    holder: 'drone-1',
    phase: 'held',
    tag: 'v1',
    droneId: 'drone-1',
    namespace: 'rooms.eu',
    includeChildren: true,
  });
});
