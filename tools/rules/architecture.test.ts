import { execFile } from 'node:child_process';
import path from 'node:path';
import { promisify } from 'node:util';
import { ESLint } from 'eslint';
import { beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from './source-files.ts';

const TIMEOUT_MS = 60_000;
const IMPORTS = '@typescript-eslint/no-restricted-imports';
const BOUNDARIES = '@nx/enforce-module-boundaries';
const UNREADABLE = 'parse error';
/** The rules that the tests are about. */
const JUDGED = new Set([
  IMPORTS,
  BOUNDARIES,
  'no-console',
  'no-restricted-globals',
  'no-restricted-properties',
  'no-restricted-syntax',
]);
let eslint: ESLint;

beforeAll(async () => {
  // Without a project graph the rule of the boundaries is silently not applied.
  await promisify(execFile)(process.execPath, ['node_modules/.bin/nx', 'show', 'projects'], {
    cwd: ROOT,
    env: { ...process.env, NX_DAEMON: 'false', NX_TUI: 'false' },
  });
  eslint = new ESLint({
    cwd: ROOT,
    ruleFilter: ({ ruleId }) => JUDGED.has(ruleId),
  });
}, TIMEOUT_MS);

/** The rules that `text` breaks as the content of this file, which exists. */
async function brokenRules(file: string, text: string): Promise<string[]> {
  const [result] = await eslint.lintText(text, { filePath: path.join(ROOT, file) });
  return [...new Set(result?.messages.map(({ ruleId }) => ruleId ?? UNREADABLE))];
}

describe('the boundaries', () => {
  test.each([
    [
      'a drone never sees the database',
      'apps/drone/src/main.ts',
      "import { openStore } from '@leasehold/keys-core/postgres';\nvoid openStore;",
      IMPORTS,
    ],
    [
      'a drone imports no Prisma',
      'apps/drone/src/main.ts',
      "import { PrismaPg } from '@prisma/adapter-pg';\nvoid PrismaPg;",
      IMPORTS,
    ],
    [
      'a client never sees the database',
      'libs/client/src/index.ts',
      "import { openStore } from '@leasehold/keys-core/postgres';\nvoid openStore;",
      IMPORTS,
    ],
    [
      'the kernel imports nothing',
      'libs/keys-core/src/kernel/limits.ts',
      "import { openStore } from '../postgres/open-store.ts';\nvoid openStore;",
      IMPORTS,
    ],
    [
      'the holder imports the kernel alone',
      'libs/keys-core/src/holder/lease-keeper.ts',
      "import { openStore } from '../postgres/open-store.ts';\nvoid openStore;",
      IMPORTS,
    ],
    [
      'the database layer imports no slice',
      'libs/keys-core/src/postgres/sql.ts',
      "import { createConnect } from '../keys/connect.ts';\nvoid createConnect;",
      IMPORTS,
    ],
    [
      'a slice imports no slice above it',
      'libs/keys-core/src/grants/granting.ts',
      "import { createConnect } from '../keys/index.ts';\nvoid createConnect;",
      IMPORTS,
    ],
    [
      'a slice imports another through its index',
      'libs/keys-core/src/leases/coordinator.ts',
      "import { grantLease } from '../grants/sql/grant.ts';\nvoid grantLease;",
      IMPORTS,
    ],
    [
      'a slice imports no Prisma',
      'libs/keys-core/src/keys/connect.ts',
      "import { PrismaPg } from '@prisma/adapter-pg';\nvoid PrismaPg;",
      IMPORTS,
    ],
    [
      'only the error map knows what tRPC throws',
      'libs/api/src/trpc.ts',
      "import { TRPCError } from '@trpc/server';\nvoid TRPCError;",
      IMPORTS,
    ],
    [
      'a part of the console that knows no resource imports no resource',
      'apps/console/src/ui/states.tsx',
      "import { PHASE_LOOKS } from '~/resources/looks.tsx';\nvoid PHASE_LOOKS;",
      IMPORTS,
    ],
    [
      'what resources share imports no feature',
      'apps/console/src/resources/list/grant-search.ts',
      "import { KeysPage } from '../../features/keys/keys-page.tsx';\nvoid KeysPage;",
      IMPORTS,
    ],
    [
      "the console's library imports no part of a page",
      'apps/console/src/lib/api/prefetch.tsx',
      "import { Notice } from '~/ui/states.tsx';\nvoid Notice;",
      IMPORTS,
    ],
    [
      'a feature of the console imports no other',
      'apps/console/src/features/keys/keys-page.tsx',
      "import { LeasesPage } from '~/features/leases/leases-page.tsx';\nvoid LeasesPage;",
      IMPORTS,
    ],
    [
      'a folder of a feature imports no other feature',
      'apps/console/src/features/overview/charts/time-chart.tsx',
      "import { KeysPage } from '../../keys/keys-page.tsx';\nvoid KeysPage;",
      IMPORTS,
    ],
    [
      'a route of the console draws nothing itself',
      'apps/console/src/app/(console)/keys/page.tsx',
      "import { Stack } from '@mantine/core';\nvoid Stack;",
      IMPORTS,
    ],
    [
      "a page imports nothing of the console's server",
      'apps/console/src/app/(console)/layout.tsx',
      "import { readConfig } from '~/server/config.ts';\nvoid readConfig;",
      IMPORTS,
    ],
    [
      'what tests share stays in tests',
      'apps/controller/src/main.ts',
      "import { waitUntil } from '@leasehold/testing';\nvoid waitUntil;",
      IMPORTS,
    ],
    [
      'no app imports another',
      'apps/cli/src/main.ts',
      "import { readConfig } from '../../controller/src/config.ts';\nvoid readConfig;",
      BOUNDARIES,
    ],
    [
      'the domain imports no API',
      'libs/keys-core/src/index.ts',
      "import { appRouter } from '@leasehold/api';\nvoid appRouter;",
      BOUNDARIES,
    ],
    [
      'what every process shares knows no domain',
      'libs/service-kit/src/index.ts',
      "import { LeaseError } from '@leasehold/keys-core';\nvoid LeaseError;",
      BOUNDARIES,
    ],
  ])(
    '%s',
    async (_promise, file, text, rule) => {
      expect(await brokenRules(file, text)).toContain(rule);
    },
    TIMEOUT_MS,
  );

  test.each([
    [
      'only config.ts reads the environment',
      'apps/controller/src/main.ts',
      'void process.env;',
      'no-restricted-syntax',
    ],
    [
      'time in the domain is passed in',
      'libs/keys-core/src/kernel/ladder.ts',
      'void Date.now();',
      'no-restricted-properties',
    ],
    [
      'a wall clock is not read in the domain',
      'libs/keys-core/src/kernel/ladder.ts',
      'void new Date();',
      'no-restricted-syntax',
    ],
    [
      'chance in the domain is passed in',
      'libs/keys-core/src/holder/lease-keeper.ts',
      'void Math.random();',
      'no-restricted-properties',
    ],
    [
      'timers in the domain are passed in',
      'libs/keys-core/src/holder/lease-keeper.ts',
      'setTimeout(() => undefined, 1);',
      'no-restricted-globals',
    ],
    [
      'statements take parameters, never text',
      'libs/keys-core/src/postgres/sql.ts',
      "declare const db: { $queryRawUnsafe(sql: string): void };\ndb.$queryRawUnsafe('select');",
      'no-restricted-syntax',
    ],
    [
      'statements stand in sql folders',
      'libs/keys-core/src/leases/acquiring.ts',
      'declare const db: { $queryRaw(text: TemplateStringsArray): void };\ndb.$queryRaw`select`;',
      'no-restricted-syntax',
    ],
    [
      'fragments of statements stand in sql folders',
      'libs/keys-core/src/grants/granting.ts',
      'declare const fragment: (text: TemplateStringsArray) => void;\nfragment`select`;',
      'no-restricted-syntax',
    ],
    [
      'a service is made by a function',
      'libs/keys-core/src/leases/acquiring.ts',
      'export class Service {\n  readonly #deps = {};\n}',
      'no-restricted-syntax',
    ],
    ['nothing prints but the log', 'apps/drone/src/main.ts', "console.log('hello');", 'no-console'],
    ['exports have names', 'libs/api/src/index.ts', 'export default 1;', 'no-restricted-syntax'],
  ])(
    '%s',
    async (_promise, file, text, rule) => {
      expect(await brokenRules(file, text)).toContain(rule);
    },
    TIMEOUT_MS,
  );

  test.each([
    [
      'a drone may know the types of the keys face',
      'apps/drone/src/main.ts',
      "import type { KeyDeadlines } from '@leasehold/keys-core/keys';\nexport type Known = KeyDeadlines;",
    ],
    [
      'a controller may open the store',
      'apps/controller/src/main.ts',
      "import { openStore } from '@leasehold/keys-core/postgres';\nvoid openStore;",
    ],
    [
      'a slice may import one below it through its index',
      'libs/keys-core/src/leases/coordinator.ts',
      "import { type LeaseStore } from '../../grants/index.ts';\nexport type Known = LeaseStore;",
    ],
    [
      'a part of a feature may import the rest of it, and what resources share',
      'apps/console/src/features/overview/charts/time-chart.tsx',
      "import { RowsLink } from '../tiles.tsx';\nimport { PHASE_LOOKS } from '~/resources/looks.tsx';\nexport const known = [RowsLink, PHASE_LOOKS];",
    ],
    [
      'a route may wire a feature',
      'apps/console/src/app/(console)/keys/page.tsx',
      "import { KeysPage } from '~/features/keys/keys-page.tsx';\nvoid KeysPage;",
    ],
    [
      'tests may use what tests share',
      'libs/keys-core/src/postgres/migrate.pg.test.ts',
      "import { waitUntil } from '@leasehold/testing';\nvoid waitUntil;",
    ],
  ])(
    '%s',
    async (_promise, file, text) => {
      const rules = await brokenRules(file, text);
      expect(rules.filter((rule) => [IMPORTS, BOUNDARIES, UNREADABLE].includes(rule))).toEqual([]);
    },
    TIMEOUT_MS,
  );
});
