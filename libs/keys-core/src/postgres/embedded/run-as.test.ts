import { access, mkdir, mkdtemp, readlink, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { findBinaries, restoreLinks } from './run-as.ts';

let packageDir: string;

beforeEach(async () => {
  packageDir = await mkdtemp(path.join(os.tmpdir(), 'leasehold-binaries-'));
  await mkdir(path.join(packageDir, 'native', 'lib'), { recursive: true });
  await writeFile(path.join(packageDir, 'native', 'lib', 'libpq.so.5.18'), '');
  await writeFile(
    path.join(packageDir, 'native', 'pg-symlinks.json'),
    JSON.stringify([{ source: 'native/lib/libpq.so.5.18', target: 'native/lib/libpq.so.5' }]),
  );
});

afterEach(async () => {
  await rm(packageDir, { recursive: true, force: true, maxRetries: 10 });
});

describe('the links of the libraries', () => {
  test('are made where install scripts were not run, and left alone afterwards', async () => {
    await Promise.all([restoreLinks(packageDir), restoreLinks(packageDir)]);
    await restoreLinks(packageDir);

    const link = path.join(packageDir, 'native', 'lib', 'libpq.so.5');
    expect(await readlink(link)).toBe('libpq.so.5.18');
  });

  test('are not needed by a package that lists none', async () => {
    await rm(path.join(packageDir, 'native', 'pg-symlinks.json'));

    await expect(restoreLinks(packageDir)).resolves.toBeUndefined();
  });
});

test('the binaries of this machine are found', async () => {
  const { initdb, postgres } = await findBinaries();

  await expect(Promise.all([access(initdb), access(postgres)])).resolves.toBeDefined();
});
