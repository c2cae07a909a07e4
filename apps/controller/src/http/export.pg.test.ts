import { describe, expect, test } from 'vitest';
import { shareTestController, type TestController } from '../testing/test-controller.ts';
import { acquireLease, refOf } from '../testing/wire-leases.ts';
import { call, mutate } from '../testing/wire.ts';

/** A file as a client gets it: whole, or cut off. */
async function download(
  on: TestController,
  path: string,
  secret: string,
): Promise<{ status: number; headers: Headers; text: string }> {
  const response = await fetch(`${on.url}/export/${path}`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  return { status: response.status, headers: response.headers, text: await response.text() };
}

interface Event {
  readonly id: string;
  readonly at: string;
  readonly kind: string;
}

describe('an export', () => {
  let on: TestController;
  let secret: string;
  let operator: string;
  shareTestController(async (shared) => {
    on = shared;
    secret = (await on.token('client')).secret;
    operator = (await on.token('operator')).secret;
  });

  test('as JSON is the list, one object on each line, in a file with the database time in its name', async () => {
    await acquireLease(on, secret, { namespace: ['json'], key: 'a' });
    await acquireLease(on, secret, { namespace: ['json', 'b'], key: 'b' });

    const { status, headers, text } = await download(on, 'leases?namespace=json', secret);

    expect(status).toBe(200);
    expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
    expect(headers.get('content-disposition')).toMatch(
      /^attachment; filename="leasehold-leases-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ\.json"$/u,
    );
    expect(JSON.parse(text)).toMatchObject([
      { namespace: 'json', name: 'a', phase: 'held' },
      { namespace: 'json.b', name: 'b' },
    ]);
    expect(text.trimEnd().split('\n')).toHaveLength(4);
  });

  test('as CSV has a line of names, quotes where needed, and starts no formula', async () => {
    const lease = await acquireLease(on, secret, {
      namespace: ['csv'],
      key: '=1+1',
      holder: '@sum',
      comment: 'says "yes", twice',
      metadata: { n: [1, true] },
    });
    for (const [index, sign] of ['+', '-'].entries()) {
      await acquireLease(on, secret, { namespace: ['csv'], key: `${sign}${String(index)}` });
    }

    const { headers, text } = await download(on, 'leases?format=csv&namespace=csv', secret);

    const [names = '', ...lines] = text.split('\r\n');
    expect(headers.get('content-type')).toContain('text/csv');
    expect(names.split(',').slice(0, 5)).toEqual([
      'namespace',
      'name',
      'action',
      'phase',
      'leaseId',
    ]);
    expect(lines.map((line) => line.split(',')[1])).toEqual(["'+0", "'-1", "'=1+1", undefined]);
    expect(lines[2]).toContain(`,${lease.fencingToken},'@sum,`);
    expect(lines[2]).toContain(`,true,`);
    expect(lines[2]).toContain('"says ""yes"", twice","{""n"":[1,true]}"');
  });

  test('of events begins with the oldest, and can be filtered by instants, an id and kinds', async () => {
    const lease = await acquireLease(on, secret, { namespace: ['told'], key: 'k' });
    await mutate(on, 'leases.release', { secret, input: refOf(lease) });
    const events = async (query: string): Promise<Event[]> =>
      JSON.parse((await download(on, `events?namespace=told${query}`, secret)).text) as Event[];

    const told = await events('');
    const [first, second] = told;

    expect(told.map(({ kind }) => kind)).toEqual(['granted', 'released']);
    expect(await events(`&afterId=${first?.id ?? ''}`)).toEqual([second]);
    expect(await events('&kinds=granted,failed')).toEqual([first]);
    expect(await events('&kinds=granted&kinds=released')).toEqual(told);
    expect(await events(`&to=${first?.at ?? ''}`)).toEqual([]);
    expect(await events(`&from=${first?.at ?? ''}`)).toEqual(told);
  });

  test('shows a token that is limited to namespaces only those', async () => {
    await acquireLease(on, secret, { namespace: ['limited'], key: 'seen' });
    await acquireLease(on, secret, { namespace: ['limited2'], key: 'unseen' });
    const limited = await on.token('viewer', { namespaces: ['limited'] });

    const { text } = await download(on, 'leases', limited.secret);

    expect((JSON.parse(text) as { name: string }[]).map(({ name }) => name)).toEqual(['seen']);
  });

  test.each([
    ['an unknown field', 'keys?colour=red', 'colour: is not a known field'],
    ['a cursor', 'keys?cursor=x', 'cursor: is not a filter'],
    ['an unknown phase', 'keys?phase=lost', 'phase: '],
    ['a word for yes or no', 'keys?includeChildren=yes', 'includeChildren: '],
    ['no number', 'keys?endedWithinMs=soon', 'endedWithinMs: '],
    ['a field given twice', 'keys?name=a&name=b', 'name: '],
    ['an invalid instant', 'events?from=yesterday', 'from: must be an ISO-8601 instant'],
    ['the year 0', 'audit?from=0000-01-01T00:00:00Z', 'from: must be an instant after the year 0'],
    ['an invalid event id', 'events?afterId=x', 'afterId: must be the id of an event'],
    ['another format', 'keys?format=xml', 'format: must be "json" or "csv"'],
  ])(
    'with %s is refused with the name of the field, before a byte is sent',
    async (_what, path, message) => {
      const answer = await call(on, `/export/${path}`, { secret: operator });

      expect(answer.status).toBe(400);
      expect(answer.body.error?.data.leaseholdCode).toBe('request.invalid');
      expect(answer.body.error?.message).toContain(message);
    },
  );

  test('of an address that cannot be read is refused in the shape of the contract, with the id of the request', async () => {
    const response = await fetch(`${on.url}/export/%zz`, { headers: { 'x-request-id': 'id-1' } });
    const body = (await response.json()) as { error: { data: { leaseholdCode: string } } };

    expect([response.status, response.headers.get('x-request-id')]).toEqual([400, 'id-1']);
    expect(body.error.data.leaseholdCode).toBe('request.invalid');
  });

  test.each([
    ['without a token', '/export/keys', undefined, 'GET', 401],
    ['of an unknown list', '/export/secrets', 'operator', 'GET', 404],
    ['of an inherited name', '/export/constructor', 'operator', 'GET', 404],
    ['by POST', '/export/keys', 'operator', 'POST', 404],
  ] as const)('%s is refused', async (_what, path, role, method, status) => {
    const asked = role === undefined ? {} : { secret: (await on.token(role)).secret };

    expect((await call(on, path, { ...asked, method })).status).toBe(status);
  });
});
