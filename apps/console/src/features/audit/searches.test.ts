import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import {
  EVENT_FIELDS,
  eventAddress,
  eventBefore,
  eventListInput,
  eventProblems,
  faceOf,
  kindsOf,
  missingEvent,
  parseEventAddress,
} from './searches.ts';

const LEASE_ID = '0198a1b2-0000-4000-8000-00000000abcd';

const NO_FILTERS = { face: null, kinds: [], after: null, range: null, from: null, to: null };

const inputOf = (text: string) =>
  eventListInput({ ...NO_FILTERS, search: parseSearch(text, EVENT_FIELDS) });

describe('eventListInput', () => {
  test.each([
    ['', {}],
    ['room-1', { name: 'room-1' }],
    ['"room 1" namespace:rooms.eu', { name: 'room 1', namespace: 'rooms.eu' }],
    [`lease:${LEASE_ID.toUpperCase()}`, { leaseId: LEASE_ID }],
  ])('asks for %j', (text, wanted) => {
    expect(inputOf(text)).toEqual({ limit: 100, ...wanted });
  });

  test('reports half a lease id as a problem, and does not ask for it', () => {
    const search = parseSearch('lease:0198', EVENT_FIELDS);

    expect(eventProblems(search)).toEqual(['lease: needs a whole lease id']);
    expect(inputOf('lease:0198')).toEqual({ limit: 100 });
  });
});

test('asks for the time up to now', () => {
  const search = parseSearch('', EVENT_FIELDS);

  expect(eventListInput({ ...NO_FILTERS, search, range: '15m' })).toEqual({
    limit: 100,
    windowMinutes: 15,
  });
});

test('unknown kinds and faces in the address are left out', () => {
  expect(kindsOf(['granted', 'eaten'])).toEqual(['granted']);
  expect(faceOf('key')).toBe('key');
  expect(faceOf('spoon')).toBeNull();
});

test('an event of another datacenter is named with it', () => {
  const event = { id: '77.1204', datacenter: 'fra' };

  expect(eventAddress(event, 'fra')).toBe('77.1204');
  expect(parseEventAddress(eventAddress(event, 'lon'))).toEqual(event);
  expect(parseEventAddress('77.1204')).toEqual({ id: '77.1204' });
  expect(parseEventAddress('yesterday')).toBeUndefined();
  expect(parseEventAddress(null)).toBeUndefined();
});

test('the id before one leads to it', () => {
  expect(eventBefore('77.1204')).toBe('77.1203');
});

describe('an event of a link that is not there', () => {
  const refusal = (code: string) => ({ data: undefined, error: { code, message: 'Why.' } });

  test('is no longer kept only where an answer shows that', () => {
    for (const read of [
      { data: { unreachable: [] }, error: null },
      refusal('events.compacted'),
      refusal('events.other_epoch'),
    ]) {
      expect(missingEvent(read)).toEqual({ isGone: true, text: 'This event is no longer kept.' });
    }
  });

  test('could not be read where no answer came, and why', () => {
    expect(missingEvent(refusal('network'))).toEqual({
      isGone: false,
      text: 'This event could not be read: Why.',
    });
    const unreachable = [{ datacenter: 'dc2', since: null, code: null }];
    expect(missingEvent({ data: { unreachable }, error: null })).toEqual({
      isGone: false,
      text: 'This event could not be read: dc2 does not answer.',
    });
    expect(missingEvent({ data: undefined, error: null })).toBeUndefined();
  });
});
