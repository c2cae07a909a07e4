import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { supervisingNew } from '../../testing/supervised-postgres.ts';
import { createDatabase } from '../migrate.ts';
import { supervisePostgres } from './embedded-postgres.ts';

test('H-restart-count: PostgreSQL that is killed once an hour is started again each time', async () => {
  const { gaveUp, ...options } = await supervisingNew();
  const database = await supervisePostgres(options);
  onTestFinished(() => database.stop());

  for (let deaths = 0; deaths < 6; deaths += 1) {
    const { pid } = database;
    process.kill(pid, 'SIGKILL');
    await waitUntil(() => database.pid !== pid || gaveUp.length > 0);
  }

  expect(gaveUp).toEqual([]);
  await expect(createDatabase(database.url('leasehold'))).resolves.toBe(true);
});

test('a file without a port does not matter, whatever is in it', async () => {
  const options = await supervisingNew();
  await mkdir(options.dataDir, { mode: 0o700 });
  for (const kept of ['', 'x', '0', '65536', '-1']) {
    await writeFile(join(options.dataDir, 'port'), kept);
    const database = await supervisePostgres(options);
    await database.stop();

    expect(database, kept).toMatchObject({ lostPort: undefined });
  }
});

test('an empty data folder is used', async () => {
  const options = await supervisingNew();
  await mkdir(join(options.dataDir, 'data'), { recursive: true, mode: 0o700 });

  const database = await supervisePostgres(options);
  onTestFinished(() => database.stop());

  await expect(createDatabase(database.url('leasehold'))).resolves.toBe(true);
  expect(database).toMatchObject({ dir: options.dataDir, notice: undefined });
});
