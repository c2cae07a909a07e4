import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import { BACKEND_FIELDS, backendListInput } from './backend-search.ts';

function inputOf(q: string, more: { status?: string; live?: boolean; after?: string } = {}) {
  const { status = null, live = false, after = null } = more;
  return backendListInput({ search: parseSearch(q, BACKEND_FIELDS), status, live, after });
}

describe('backendListInput', () => {
  test('asks for everything, newest first, without a search', () => {
    expect(inputOf('')).toEqual({ limit: 100 });
  });

  test('takes a bare word for the whole name of a key', () => {
    expect(inputOf('standup-web')).toEqual({ limit: 100, name: 'standup-web' });
    expect(inputOf('key:"two words" namespace:rooms.eu')).toEqual({
      limit: 100,
      name: 'two words',
      namespace: 'rooms.eu',
    });
  });

  test('filters by drone and program, and leaves out an unknown status', () => {
    expect(inputOf('drone:d-1 program:room', { status: 'asleep', live: true })).toEqual({
      limit: 100,
      droneId: 'd-1',
      program: 'room',
      live: true,
    });
    expect(inputOf('', { status: 'ready', after: 'c' })).toEqual({
      limit: 100,
      status: 'ready',
      cursor: 'c',
    });
  });
});
