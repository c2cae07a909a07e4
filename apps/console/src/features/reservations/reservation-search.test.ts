import { expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import {
  RESERVATION_FIELDS,
  reservationListInput,
  reservationSearchProblems,
} from './reservation-search.ts';

const searchOf = (q: string) => parseSearch(q, RESERVATION_FIELDS);

test('the request contains every field of the search', () => {
  const search = searchOf('room- namespace:rooms.eu state:moved');

  expect(reservationListInput({ search, after: 'c1' })).toMatchObject({
    contains: 'room-',
    namespace: 'rooms.eu',
    state: 'moved',
    cursor: 'c1',
  });
});

test('a state that no listed reservation has is reported beside the search, and not asked for', () => {
  const search = searchOf('state:pending');

  expect(reservationSearchProblems(search)).toEqual(['state: is one of active, moved']);
  expect(reservationListInput({ search, after: null })).toEqual({ limit: 100 });
});
