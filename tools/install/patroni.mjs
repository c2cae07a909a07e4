/** What the tests of failovers need beside npm's PostgreSQL: one that can copy itself, and what runs it. */
import { readdir } from 'node:fs/promises';
import path from 'node:path';
import { findProgram, installPackages, isExecutable } from './debian.mjs';

/** Where Debian and its derivatives install PostgreSQL, with a folder for each version. */
const POSTGRES = '/usr/lib/postgresql';
const PACKAGES = ['postgresql', 'patroni', 'haproxy'];

/** Makes sure that they are there; prints what to do about it when that fails. */
export async function ensurePatroni() {
  const wanted = await missingPackages();
  if (wanted.length === 0) return;
  await installPackages(wanted, 'the tests of failovers');
  const missing = await missingPackages();
  if (missing.length === 0) return;
  console.error(`Tests of failovers and of base backups will fail, because these are missing and could not be
installed: ${missing.join(', ')}. Install Debian's packages of these names.`);
}

async function missingPackages() {
  const found = [
    await hasPostgres(),
    await Promise.all(['patroni', 'haproxy'].map(findProgram)),
  ].flat();
  return PACKAGES.filter((_, index) => !found[index]);
}

async function hasPostgres() {
  const versions = await readdir(POSTGRES).catch(() => []);
  const found = await Promise.all(
    versions.map((version) => isExecutable(path.join(POSTGRES, version, 'bin', 'pg_basebackup'))),
  );
  return found.includes(true);
}
