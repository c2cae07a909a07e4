import { createTestDatabase } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { runCommand } from '../testing/command-line.ts';

test('migrate --plan prints each migration with its notes, changes nothing, and reports a database that is up to date', async () => {
  const database = await createTestDatabase();
  onTestFinished(() => database.drop());
  const env = { DATABASE_URL: database.url, LEASEHOLD_SCHEMA: 'planned' };

  const planned = await runCommand(['migrate', '--plan'], env);
  expect(planned).toMatchObject({ exitCode: 0, stderr: '' });
  expect(planned.stdout).toContain(
    ['20261128000000_baseline', '  The tables of Leasehold 0.1.0.'].join('\n'),
  );
  expect(planned.stdout).toMatch(/Nothing was changed\.\n$/u);

  const applied = await runCommand(['migrate', '--json'], env);
  const names = (JSON.parse(applied.stdout) as { applied: string[] }).applied;
  expect(planned.stdout.match(/^\d{14}_\w+$/gmu)).toEqual(names);
  const count = names.length === 1 ? '1 migration' : `${String(names.length)} migrations`;
  expect(planned.stdout).toContain(`${count} to apply to the schema "planned"`);
  const done = await runCommand(['migrate', '--plan'], env);
  expect(done.stdout).toBe('The database is up to date.\n');
});
