import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { setHere } from '~/lib/routes.ts';
import { isConcerned } from './live-provider.tsx';

const KEY = { face: 'key', namespace: 'shop.eu', name: 'cart-1' } as const;
const CHANGES = { eventCount: 1, resources: [KEY], manyOf: [] };

beforeEach(() => {
  setHere('fra');
});
afterEach(() => {
  setHere('');
});

describe('what is read again after an event of a key', () => {
  test.each([
    ['its page', ['keys', 'get', { namespace: 'shop.eu', name: 'cart-1' }]],
    ['its history', ['keys', 'history', { namespace: 'shop.eu', name: 'cart-1', limit: 20 }]],
    ['a list of all keys', ['keys', 'list', { limit: 100 }]],
    ['a list of its namespace', ['keys', 'list', { namespace: 'shop.eu' }]],
    ['a list of the namespace above', ['keys', 'list', { namespace: 'shop' }]],
    ['a list of its name', ['keys', 'list', { name: 'cart-1', namespace: 'shop' }]],
    ['a list of all datacenters', ['keys', 'list', { datacenter: 'all' }]],
    ['the overview', ['stats', 'overview', { windowMinutes: 60 }]],
    ['the events of all types', ['events', 'list', {}]],
    ['the events of keys', ['events', 'list', { face: 'key' }]],
  ])('%s', (_what, queryKey) => {
    expect(isConcerned({ queryKey }, CHANGES)).toBe(true);
  });

  test.each([
    ['the page of another key', ['keys', 'get', { namespace: 'shop.eu', name: 'cart-2' }]],
    ['the page of a key above', ['keys', 'get', { namespace: 'shop', name: 'cart-1' }]],
    ['a list of another namespace', ['keys', 'list', { namespace: 'shop.us' }]],
    ['a list of a namespace that begins alike', ['keys', 'list', { namespace: 'sh' }]],
    ['the events of leases', ['events', 'list', { face: 'lease' }]],
    ['leases', ['leases', 'list', {}]],
    ['the audit', ['audit', 'list', {}]],
    ['keys of another datacenter', ['keys', 'list', { datacenter: 'nyc' }]],
  ])('not %s', (_what, queryKey) => {
    expect(isConcerned({ queryKey }, CHANGES)).toBe(false);
  });

  test('a backend, if it is the backend of that key', () => {
    const queryKey = ['backends', 'get', { backendId: 'bk-1' }];
    const keyOf = (name: string) => ({ key: { name, namespace: 'shop.eu', tag: '' } });

    expect(isConcerned({ queryKey, data: keyOf('cart-1') }, CHANGES)).toBe(true);
    expect(isConcerned({ queryKey, data: keyOf('cart-2') }, CHANGES)).toBe(false);
    expect(isConcerned({ queryKey }, CHANGES)).toBe(true);
  });
});

test('too many changes to be named may concern every answer about that type', () => {
  const many = { eventCount: 500, resources: [], manyOf: ['key' as const] };

  expect(isConcerned({ queryKey: ['keys', 'get', { namespace: '', name: 'a' }] }, many)).toBe(true);
  expect(isConcerned({ queryKey: ['leases', 'get', { namespace: '', name: 'a' }] }, many)).toBe(
    false,
  );
});
