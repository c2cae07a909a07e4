import { afterEach, beforeEach, describe, expect, it, test } from 'vitest';
import { at, exportAddress, listedDatacenters, routes, setHere } from './routes.ts';

const KEY = { namespace: 'rooms', name: 'a&b' };

beforeEach(() => {
  setHere('dc1');
});
afterEach(() => {
  setHere('');
});

describe('where a thing is', () => {
  test('calls and addresses name a datacenter only if it is not the controller’s own', () => {
    expect(at('dc2')).toEqual({ datacenter: 'dc2' });
    for (const here of ['dc1', '', null, undefined]) expect(at(here)).toEqual({});
    expect(routes.key({ ...KEY, datacenter: 'dc1' })).toBe(
      '/keys/detail?namespace=rooms&name=a%26b',
    );
    expect(routes.key({ ...KEY, datacenter: 'dc2' })).toContain('&datacenter=dc2');
    expect(routes.drone('drone-1', 'dc2')).toBe('/drones/detail?id=drone-1&datacenter=dc2');
  });

  test('lists cover all datacenters unless one is chosen, and name none if there is only one', () => {
    expect(listedDatacenters(null, true)).toEqual({ datacenter: 'all' });
    expect(listedDatacenters('dc2', true)).toEqual({ datacenter: 'dc2' });
    expect(listedDatacenters(null, false)).toEqual({});
  });
});

describe('exportAddress', () => {
  it('asks for all results of the current query, not only for the shown page', () => {
    const input = { limit: 100, cursor: 'abc', prefix: 'room &', includeChildren: true };
    expect(exportAddress('keys', 'csv', input)).toBe(
      '/export/keys?format=csv&prefix=room+%26&includeChildren=true',
    );
  });

  it('has the order of the list, unless a row can change its place in it while the file is written', () => {
    const ordered = (sort: string) => exportAddress('keys', 'csv', { sort, direction: 'desc' });
    expect(ordered('expiresAt')).toBe('/export/keys?format=csv');
    expect(ordered('name')).toBe('/export/keys?format=csv&sort=name&direction=desc');
  });

  it('joins lists with commas and leaves out undefined values', () => {
    const input = { kinds: ['granted', 'revoked'], face: undefined };
    expect(exportAddress('events', 'json', input)).toBe(
      '/export/events?format=json&kinds=granted%2Crevoked',
    );
  });
});
