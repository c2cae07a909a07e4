import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { createLeasehold, LeaseRevoked, type Leasehold } from '@leasehold/client';
import {
  createTestDatabase,
  startControllerProcess,
  startProcess,
  waitUntil,
  type ControllerProcess,
  type TestProcess,
} from '@leasehold/testing';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { aGate } from './testing/service.ts';
import { usersTable } from './testing/users-table.ts';
import { createUserModule, type Users } from './update-user.ts';

const UPDATING = ['module', 'user', 'update'];
const VISITOR = path.join(import.meta.dirname, 'testing', 'visitor.ts');

let home: string;
let controller: ControllerProcess;
let token: string;
let adminToken: string;
let usersUrl: string;
let users: pg.Pool;
let table: Users;
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
  usersUrl = (await createTestDatabase()).url;
  users = new pg.Pool({ connectionString: usersUrl });
  table = usersTable(users);
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

/** A process of the service, from its source. */
async function startVisitor(name: string, args: readonly string[]): Promise<TestProcess> {
  const visitor = await startProcess({
    name,
    args: ['--conditions=@leasehold/source', '--import', 'tsx', VISITOR, ...args],
    env: {},
  });
  onTestFinished(() => visitor.kill());
  return visitor;
}

/** Another client in this process. */
function connect(clientName: string, as = token): Leasehold {
  const leasehold = createLeasehold({ url: controller.url, token: as, clientName });
  onTestFinished(() => leasehold.close());
  return leasehold;
}

async function aUser(userId: string): Promise<void> {
  await users.query('insert into account values ($1, 0)', [userId]);
}

async function visitsOf(userId: string): Promise<number> {
  const { rows } = await users.query<{ balance: string }>(
    'select balance from account where id = $1',
    [userId],
  );
  return Number(rows[0]?.balance);
}

describe('a module', () => {
  test('C1 I9 updates of one user in two processes happen one after the other: none is lost', async () => {
    await aUser('u1');
    const args = [controller.url, token, usersUrl, 'u1', '6'];
    const processes = await Promise.all(['one', 'two'].map((name) => startVisitor(name, args)));
    const gate = await connect('gate').defineLease(UPDATING).acquire('u1');
    for (const each of processes) each.signal('SIGUSR2');
    // All updates are under way in both before the first can happen.
    const operator = connect('operator', adminToken);
    const scope = { namespace: UPDATING, key: 'u1' };
    await waitUntil(
      async () => (await operator.api.leases.waiters.query(scope)).items.length === 12,
    );

    await gate.release();
    const codes = await Promise.all(processes.map(({ exited }) => exited));

    const visits = processes.map((each) => JSON.parse(each.log()) as number[]);
    expect(codes).toEqual([0, 0]);
    expect(visits.map(({ length }) => length)).toEqual([6, 6]);
    expect(visits.flat().sort((a, b) => a - b)).toEqual(
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
    expect((await operator.api.leases.get.query({ namespace: UPDATING, key: 'u2' }))?.phase).toBe(
      'free',
    );
  });

  test('I9 a write that arrives when the next holder has read is refused: no update is lost', async () => {
    await aUser('u4');
    const [writing, late, reading, go] = [aGate(), aGate(), aGate(), aGate()];
    const first = createUserModule(connect('first'), {
      ...table,
      async write(...args) {
        writing.open();
        await late.opened;
        return table.write(...args);
      },
    }).visit('u4');
    first.catch(() => undefined);
    await writing.opened;
    const operator = connect('operator', adminToken);
    const held = await operator.api.leases.get.query({ namespace: UPDATING, key: 'u4' });
    await operator.api.leases.revoke.mutate({
      leaseId: held?.leaseId ?? '',
      mode: 'force',
      reason: 'its holder has stopped',
    });
    const second = createUserModule(connect('second'), {
      ...table,
      async read(...args) {
        const user = await table.read(...args);
        reading.open();
        await go.opened;
        return user;
      },
    }).visit('u4');
    await reading.opened;

    late.open();
    await expect(first).rejects.toThrow('Another update of this user has begun in the meantime.');
    go.open();

    expect(await second).toBe(1);
    expect(await visitsOf('u4')).toBe(1);
  });

  test('I15 a verb whose lease is revoked is cancelled and writes nothing', async () => {
    await aUser('u3');
    const reading = aGate();
    const module = createUserModule(connect('slow'), {
      ...table,
      read: (_userId, { signal }) =>
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
    const scope = { namespace: UPDATING, key: 'u3' };
    const held = await operator.api.leases.get.query(scope);

    await operator.api.leases.revoke.mutate({
      leaseId: held?.leaseId ?? '',
      mode: 'force',
      reason: 'the user is being moved',
    });

    await expect(verb).rejects.toBeInstanceOf(LeaseRevoked);
    expect(await visitsOf('u3')).toBe(0);
  });
});
