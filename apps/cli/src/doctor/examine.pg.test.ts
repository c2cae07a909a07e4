import { withSchema } from '@leasehold/service-kit';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { expect, onTestFinished, test } from 'vitest';
import { parseConfig } from '../config.ts';
import { examineDatabase } from './examine.ts';

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
