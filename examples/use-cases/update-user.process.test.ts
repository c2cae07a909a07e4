import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createLeasehold, LeaseRevoked, type Leasehold } from '@leasehold/client';
import {
  createTestDatabase,
  startControllerProcess,
  waitUntil,
  type ControllerProcess,
} from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { Fenced, FencedAccount } from './fencing/fenced-account.ts';
import { aGate } from './testing/service.ts';
import { createUserModule, type Users } from './update-user.ts';

let home: string;
let controller: ControllerProcess;
let token: string;
let adminToken: string;
let users: pg.Pool;
const endings: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  home = await mkdtemp(path.join(os.tmpdir(), 'leasehold-module-'));
  const database = await createTestDatabase();
  controller = await startControllerProcess({ databaseUrl: database.url, home });
  const credentials = JSON.parse(
    await readFile(path.join(home, 'credentials.json'), 'utf8'),
  ) as Record<string, string>;
  token = credentials['client'] ?? '';
  adminToken = credentials['admin'] ?? '';
  users = new pg.Pool({ connectionString: (await createTestDatabase()).url });
  await users.query(
    await readFile(path.join(import.meta.dirname, 'fencing', 'fenced-account.sql'), 'utf8'),
  );
  endings.push(
    () => users.end(),
    () => controller.stop(),
    () => database.drop(),
    () => rm(home, { recursive: true, maxRetries: 10 }),
  );
});

afterAll(async () => {
  for (const end of endings) await end();
});

/** A process of the service: a client of its own. */
function connect(clientName: string, as = token): Leasehold {
  const leasehold = createLeasehold({ url: controller.url, token: as, clientName });
  onTestFinished(() => leasehold.close());
  return leasehold;
}

/** Users in a database of the service's own, fenced. */
const table: Users = {
  async read(userId) {
    const { rows } = await users.query<{ balance: string }>(
      'select balance from account where id = $1',
      [userId],
    );
    return { visits: Number(rows[0]?.balance) };
  },
  async write(userId, { visits }, fencingToken) {
    try {
      await new FencedAccount(users, userId, fencingToken).write(BigInt(visits));
      return true;
    } catch (error) {
      if (error instanceof Fenced) return false;
      throw error;
    }
  },
};

async function aUser(userId: string): Promise<void> {
  await users.query('insert into account values ($1, 0)', [userId]);
}

describe('a module', () => {
  test('C1 I9 updates of one user in two processes happen one after the other: none is lost', async () => {
    await aUser('u1');
    const one = createUserModule(connect('one'), table);
    const two = createUserModule(connect('two'), table);

    const visits = await Promise.all(
      Array.from({ length: 12 }, (_, index) => (index % 2 === 0 ? one : two).visit('u1')),
    );

    expect(visits.sort((a, b) => a - b)).toEqual(
      Array.from({ length: 12 }, (_, index) => index + 1),
    );
  });

  test('the lease is declared, so that people see that it exists', async () => {
    const leasehold = connect('declares');
    const module = createUserModule(leasehold, table);
    await aUser('u2');

    await module.visit('u2');

    const operator = connect('operator', adminToken);
    await waitUntil(async () => {
      const { items } = await operator.api.leases.declared.query({});
      return items.some(({ namespace }) => namespace === 'module.user.update');
    });
    expect(
      (await operator.api.leases.get.query({ namespace: ['module', 'user', 'update'], key: 'u2' }))
        ?.phase,
    ).toBe('free');
  });

  test('I15 a verb whose lease is revoked is cancelled and writes nothing', async () => {
    await aUser('u3');
    const reading = aGate();
    const module = createUserModule(connect('slow'), {
      ...table,
      read: (_userId, signal) =>
        new Promise((_resolve, reject) => {
          reading.open();
          signal.addEventListener('abort', () => {
            reject(signal.reason as Error);
          });
        }),
    });
    const verb = module.visit('u3');
    verb.catch(() => undefined);
    await reading.opened;
    const operator = connect('operator', adminToken);
    const scope = { namespace: ['module', 'user', 'update'], key: 'u3' };
    const held = await operator.api.leases.get.query(scope);

    await operator.api.leases.revoke.mutate({
      leaseId: held?.leaseId ?? '',
      mode: 'force',
      reason: 'the user is being moved',
    });

    await expect(verb).rejects.toBeInstanceOf(LeaseRevoked);
    expect(await table.read('u3', new AbortController().signal)).toEqual({ visits: 0 });
  });
});
