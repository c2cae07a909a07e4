import { describe, expect, test } from 'vitest';
import { peekedCall } from './inbox.ts';

const PATH = 'leases.acquireMany';

describe('a call that is read by both ends of its message', () => {
  test('has the id and the path that parsing it would give', () => {
    const params = { input: { items: [{ key: '"},"path":"keys.get"}}' }] }, path: PATH };
    const text = JSON.stringify({ id: 12, method: 'mutation', params });

    expect(peekedCall(text)).toEqual({
      ...{ id: 12, method: 'mutation', unread: text },
      params: { path: PATH },
    });
  });

  test.each([
    ['a batch', [{ id: 1, method: 'mutation', params: { input: {}, path: PATH } }]],
    ['a query', { id: 1, method: 'query', params: { input: {}, path: PATH } }],
    ['an id that is a text', { id: '1', method: 'mutation', params: { input: {}, path: PATH } }],
    ['another order of fields', { id: 1, method: 'mutation', params: { path: PATH, input: {} } }],
    [
      'a field behind the path',
      { id: 1, method: 'mutation', params: { input: {}, path: PATH }, x: 1 },
    ],
    ['no input', { id: 1, method: 'mutation', params: { path: PATH } }],
  ])('is undefined for %s', (_what, message) => {
    expect(peekedCall(JSON.stringify(message))).toBeUndefined();
  });
});
