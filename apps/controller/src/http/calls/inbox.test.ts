import { describe, expect, test } from 'vitest';
import { callsIn, peekedCall, refusableCall } from './inbox.ts';

const PATH = 'leases.acquireMany';

describe('a call that is read by both ends of its message', () => {
  test('has the id and the path that parsing it would give', () => {
    const params = { input: { items: [{ key: '"},"path":"keys.get"}}' }] }, path: PATH };
    const text = JSON.stringify({ id: 12, method: 'mutation', params });

    expect(peekedCall(text)).toEqual({
      id: 12,
      method: 'mutation',
      unread: text,
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

describe('a message', () => {
  const many = (count: number, item: unknown): unknown[] => Array<unknown>(count).fill(item);
  const tooLarge = expect.objectContaining({ code: 'request.too_large' }) as Error;

  test.each([
    [
      'the path behind the input',
      (path: string, input: unknown) => ({ id: 1, params: { input, path } }),
    ],
    [
      'the path before the input',
      (path: string, input: unknown) => ({ id: 1, params: { path, input } }),
    ],
    ['a list', (path: string, input: unknown) => [{ id: 1, params: { path, input } }]],
  ])('of more bytes than its procedure may have is refused: %s', (_what, write) => {
    const input = 'x'.repeat(100_000);

    expect(() => callsIn(JSON.stringify(write('keys.get', input)), 'client')).toThrow(tooLarge);
    expect(callsIn(JSON.stringify(write('keys.connect', input)), 'client')).toHaveLength(1);
  });

  test('is not read as the procedure that its input names', () => {
    const input = { x: 'x'.repeat(100_000), path: 'leases.acquireMany' };
    const text = JSON.stringify({ id: 1, params: { path: 'keys.get', input } });

    expect(() => callsIn(text, 'client')).toThrow(tooLarge);
  });

  test('with spaces is read in the same way', () => {
    const text = JSON.stringify(
      { id: 1, params: { path: 'keys.connect', input: 'x'.repeat(100_000) } },
      null,
      1,
    );

    expect(callsIn(text, 'client')).toHaveLength(1);
  });

  test.each(['[1]', '[]', '{}', '1', '"text"', 'null'])(
    'of 1 MB with values %s is refused before it is parsed',
    (value) => {
      const text = `{"id":1,"params":{"path":"leases.acquireMany","input":[${many(Math.floor(900_000 / (value.length + 1)), value).join(',')}`;

      // It does not end, so that it could not be parsed.
      expect(() => callsIn(text, 'client')).toThrow(tooLarge);
    },
  );

  test('with very many different names is refused before it is parsed', () => {
    const names = Array.from({ length: 5_000 }, (_, nth) => `"${String(nth)}" : 1`);

    for (const fields of [`{${names.join(',')}`, `[{${names.join('},{')}}`]) {
      const text = `{"id":1,"params":{"path":"leases.heartbeat","input":${fields}`;

      expect(() => callsIn(text, 'client')).toThrow(tooLarge);
    }
  });

  test('of 10,000 renewals passes, and of a text with as many commas', () => {
    const renewals = many(10_000, { leaseId: crypto.randomUUID(), fencingToken: '9'.repeat(19) });
    const renewing = JSON.stringify({ id: 1, params: { input: { renewals }, path: 'keys.renew' } });
    const metadata = { text: '[{,"'.repeat(4_000), end: '\\' };
    const asking = JSON.stringify({
      id: 1,
      params: { input: { metadata }, path: 'leases.acquire' },
    });

    expect(callsIn(renewing, 'drone')).toHaveLength(1);
    expect(callsIn(asking, 'client')).toHaveLength(1);
  });

  test('of many calls may have as much as all of them', () => {
    const one = { id: 1, params: { path: 'leases.acquire', input: 'x'.repeat(2_000) } };

    expect(callsIn(JSON.stringify(many(400, one)), 'client')).toHaveLength(400);
  });

  test('has the same bound for every call of a viewer', () => {
    const text = JSON.stringify({
      id: 1,
      params: { path: 'leases.list', input: 'x'.repeat(300_000) },
    });

    expect(() => callsIn(text, 'viewer')).toThrow(tooLarge);
    expect(() => callsIn(`[${text}]`, 'viewer')).toThrow(tooLarge);
  });

  test.each([
    ['viewer', 'keys.renew'],
    ['viewer', 'bulk.start'],
    ['client', 'peer.carryOut'],
    ['drone', 'leases.acquireMany'],
    ['peer', 'tokens.create'],
  ] as const)('of a %s that may not call %s is refused before it is parsed', (role, path) => {
    const text = `{"id":1,"method":"mutation","params":{"path":"${path}","input":["${'x'.repeat(5_000)}`;

    expect(() => callsIn(text, role)).toThrow(
      expect.objectContaining({ code: 'auth.forbidden' }) as Error,
    );
  });

  test('that is not parsed is answered by its id', () => {
    expect(refusableCall('{"id": 7, "params":')).toEqual({ id: 7 });
    expect(refusableCall(`{"params":{"path":"keys.get"},"id":8}`)).toEqual({ id: 8 });
    expect(refusableCall('[{"id":7}]')).toBeUndefined();
  });
});
