import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { withSchema } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../config.ts';
import { databaseFindings, examineDatabase } from './examine.ts';

test('of a database without tables the doctor reports that, and what to run', async () => {
  const database = await createTestDatabase();

  const findings = await examineDatabase(withSchema(database.url, 'unmade'), parseConfig({}));

  expect(findings).toMatchObject(
    expect.arrayContaining([
      expect.objectContaining({ subject: 'database', state: 'well' }),
      expect.objectContaining({ subject: 'schema', state: 'wrong' }),
      expect.objectContaining({ subject: 'migrations', advice: 'Run `leasehold migrate`.' }),
    ]),
  );
});

test('of tables that its role may not read the doctor says which role it is', async () => {
  const database = await createTestDatabase();
  const role = `${database.name}_poor`;
  const owner = new pg.Client({ connectionString: database.url });
  await owner.connect();
  await owner.query(`create role ${role} login password 'x'`);
  onTestFinished(async () => {
    await owner.query(`drop role ${role}`);
    await owner.end();
  });
  const url = new URL(database.url);
  [url.username, url.password] = [role, 'x'];

  const findings = await examineDatabase(url.href, parseConfig({}));

  const schema = findings.find(({ subject }) => subject === 'schema');
  expect(schema).toMatchObject({ state: 'wrong', text: expect.stringContaining(role) as string });
});

test('a database that falls silent while it is examined is a finding', async () => {
  const database = await createTestDatabase();
  const url = new URL(database.url);
  const target = { host: url.hostname, port: Number(url.port) };
  const sockets: Socket[] = [];
  let isSilent = false;
  // As behind a cable that is cut: not even the end of a connection is answered.
  const line = createServer({ allowHalfOpen: true }, (near) => {
    const far = connect(target);
    sockets.push(near, far);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      from.on('error', () => undefined);
      from.on('data', (piece: Buffer) => {
        isSilent ||= piece.includes('leasehold_check_');
        if (!isSilent) to.write(piece);
      });
    }
  });
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    line.close();
  });
  await once(line.listen(0, '127.0.0.1'), 'listening');
  [url.hostname, url.port] = ['127.0.0.1', String((line.address() as AddressInfo).port)];

  const findings = await databaseFindings(parseConfig({ DATABASE_URL: url.href }), 1_000);

  expect(isSilent).toBe(true);
  expect(findings).toMatchObject([{ subject: 'database', state: 'wrong' }]);
});
