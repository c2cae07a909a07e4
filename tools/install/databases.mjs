/** What the tests of databases need beside npm's PostgreSQL: a connection pooler, and an old PostgreSQL. */
import { findProgram, installPackages, isExecutable } from './debian.mjs';

/** The oldest PostgreSQL that Leasehold supports, where Debian and its derivatives install it. */
const OLDEST = '/usr/lib/postgresql/15/bin/postgres';

const WANTED = [
  {
    name: 'pgbouncer',
    isThere: async () => (await findProgram('pgbouncer')) !== undefined,
    without: 'Tests of controllers behind a connection pooler will fail.',
  },
  {
    name: 'postgresql-15',
    isThere: () => isExecutable(OLDEST),
    without:
      'No test runs on the oldest PostgreSQL that is supported, unless another one before 18 is installed.',
  },
];

/** Makes sure that they are there; prints what to do about it when that fails. */
export async function ensureDatabases() {
  const wanted = await missing();
  // One at a time: a distribution that has no more of one may have the other.
  for (const { name } of wanted) await installPackages([name], 'the tests of databases');
  for (const { name, without } of wanted.length === 0 ? [] : await missing()) {
    console.error(
      `${name} was not found, and could not be installed. ${without} Install Debian's package of this name.`,
    );
  }
}

async function missing() {
  const found = await Promise.all(WANTED.map(({ isThere }) => isThere()));
  return WANTED.filter((_, index) => !found[index]);
}
