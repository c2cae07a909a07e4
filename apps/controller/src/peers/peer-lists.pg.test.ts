import { randomUUID } from 'node:crypto';
import { startEtcd, type TestEtcd } from '@leasehold/testing';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { openTestDatacenters, type TestDatacenters } from '../testing/test-datacenters.ts';
import { acquireLease } from '../testing/wire-leases.ts';
import { query } from '../testing/wire.ts';

/** What every list answers. */
interface Listed {
  readonly items: readonly { readonly datacenter: string; readonly name: string }[];
  readonly nextCursor: string | null;
  readonly unreachable: readonly { readonly datacenter: string; readonly code: string }[];
}

let etcd: TestEtcd;
let world: TestDatacenters;
/** The namespace of all tests in this file, with three keys in each datacenter. */
const namespace = ['lists', randomUUID()];

beforeAll(async () => {
  etcd = await startEtcd();
  world = await openTestDatacenters({ names: ['dc1', 'dc2', 'dc3'], etcd });
  await world.allSee();
  for (const name of ['dc1', 'dc2', 'dc3']) {
    const { secret } = await world.of(name).token('client');
    for (const key of ['a', 'b', 'c']) {
      await acquireLease(world.of(name), secret, { namespace, key, ttlMs: 600_000 });
    }
  }
});

// On a busy machine a probe may have had no answer in time, and nobody asks again for a while.
beforeEach(async () => {
  await world.allSee();
});

afterAll(async () => {
  await world.close();
  await etcd.stop();
});

async function list(name: string, input: object, path = 'leases.list'): Promise<Listed> {
  const { secret } = await world.of(name).token('viewer');
  return (await query(world.of(name), path, {
    secret,
    input: { namespace, ...input },
  })) as Listed;
}

const placesOf = ({ items }: Listed): string[] =>
  items.map(({ datacenter, name }) => `${datacenter}/${name}`);

describe('a list', () => {
  test('of one datacenter has only the items of that one, wherever it is requested', async () => {
    expect(placesOf(await list('dc1', {}))).toEqual(['dc1/a', 'dc1/b', 'dc1/c']);
    expect(placesOf(await list('dc1', { datacenter: 'dc1' }))).toEqual(['dc1/a', 'dc1/b', 'dc1/c']);
    expect(placesOf(await list('dc1', { datacenter: 'dc3' }))).toEqual(['dc3/a', 'dc3/b', 'dc3/c']);
    expect(await list('dc1', { datacenter: 'mars' })).toBe('reservation.unknown_datacenter');
  });

  test.each([1, 2, 3, 4, 8, 9, 100])(
    'of all datacenters begins with this one and continues by name, %i items to a page',
    async (limit) => {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await list('dc2', { datacenter: 'all', direction: 'desc', limit, cursor });
        expect(page.unreachable).toEqual([]);
        expect(page.items.length).toBeLessThanOrEqual(limit);
        if (page.nextCursor !== null) expect(page.items).toHaveLength(limit);
        found.push(...placesOf(page));
        cursor = page.nextCursor ?? undefined;
      } while (cursor !== undefined);

      expect(found).toEqual(
        ['dc2', 'dc1', 'dc3'].flatMap((name) => ['c', 'b', 'a'].map((key) => `${name}/${key}`)),
      );
    },
  );

  test('a search of all datacenters finds what is in each, and names those that it did not reach', async () => {
    const text = `${namespace.join('.')}/b`;
    const find = async (datacenter: string): Promise<unknown> =>
      list('dc1', { namespace: undefined, text, datacenter }, 'search.find');

    const all = (await find('all')) as { items: { datacenter: string; text: string }[] };
    expect(all.items.map((item) => `${item.datacenter} ${item.text}`).sort()).toEqual(
      ['dc1', 'dc2', 'dc3'].map((name) => `${name} ${text}`),
    );
    expect(await find('dc2')).toMatchObject({ items: [{ datacenter: 'dc2', text }] });
    expect(await find('mars')).toBe('reservation.unknown_datacenter');
  });

  test('of all datacenters keeps the limits of the token in each of them', async () => {
    const { secret } = await world.of('dc1').token('viewer', { namespaces: ['elsewhere'] });

    expect(
      await query(world.of('dc1'), 'leases.list', { secret, input: { datacenter: 'all' } }),
    ).toMatchObject({ items: [], unreachable: [] });
  });

  test.each(['nonsense', Buffer.from('["mars"]').toString('base64url')])(
    'refuses a cursor that no list has returned: %s',
    async (cursor) => {
      expect(['request.invalid', 'reservation.unknown_datacenter']).toContain(
        await list('dc1', { datacenter: 'all', cursor }),
      );
    },
  );

  test.each([
    ['keys.list', { namespace: undefined }],
    ['environments.list', {}],
    ['leases.contention', {}],
    ['leases.failingCallbacks', {}],
    ['drones.list', { namespace: undefined }],
    ['backends.list', { namespace: undefined }],
    ['events.list', { namespace: undefined }],
    ['reservations.list', { namespace: undefined }],
    ['search.find', { namespace: undefined, text: 'a' }],
  ])('%s works for all datacenters, and for another one', async (path, input) => {
    for (const datacenter of ['all', 'dc2']) {
      expect(await list('dc1', { ...input, datacenter }, path)).toMatchObject({
        items: expect.any(Array) as unknown[],
        asOf: expect.any(String) as string,
        unreachable: [],
      });
    }
  });

  test('of the events after a given one cannot be of all datacenters', async () => {
    const asked = { namespace: undefined, datacenter: 'all', afterId: '1' };

    expect(await list('dc1', asked, 'events.list')).toBe('request.invalid');
  });
});

describe('an export', () => {
  const exported = async (path: string): Promise<Response> => {
    const { secret } = await world.of('dc1').token('viewer');
    return fetch(`${world.of('dc1').url}/export/${path}`, {
      headers: { authorization: `Bearer ${secret}` },
    });
  };

  test('can be of all datacenters', async () => {
    const response = await exported(`leases?datacenter=all&namespace=${namespace.join('.')}`);

    expect(await response.json()).toHaveLength(9);
  });
});
