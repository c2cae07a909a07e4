/**
 * Every block of code in the pages is compiled and run, or is listed below with a reason.
 *
 * - `ts`: a module of its own; with `<!-- setup: NAME -->` in the place of `// <block>` in
 *   `setups/NAME.ts`. It must compile, and run to its end without throwing.
 * - `js`: the same, but nothing compiles it: this Node can read it as it is.
 * - any language with `<!-- file: PATH -->`: that file, or a piece of it, word for word. The file has
 *   tests of its own.
 * - `sh`, `console`: run by a shell, all blocks of a page by the same one, beside what `npm start`
 *   starts. What a `console` block shows after `$ command` is what it must print, except for words with a
 *   digit in them. The next command gets what this one really printed.
 * - `json` below a `sh` block: what that printed, with the same fields.
 * - `sql` with `<!-- setup: held-lease -->`: run with a lease that is held, and with one that is not.
 */
import { existsSync, readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { blocksOf, placeOf, type Block } from './blocks.ts';
import { matchOutput, shapeProblem } from './shape.ts';
import { openShell, type Said, type Shell } from './shell.ts';
import { runUnderLease } from './sql-blocks.ts';
import { REPOSITORY, setStage, type Stage } from './stage.ts';
import { compileProblems, removeModules, runModules, writeModules } from './typescript-blocks.ts';

/** Folders of which every page may have code. */
const FOLDERS = ['docs/recipes', 'docs/guides', 'docs/concepts'];
const PAGES = [
  'README.md',
  'libs/client/README.md',
  'docs/http-api.md',
  'docs/quick-start.md',
  ...FOLDERS.flatMap((folder) =>
    readdirSync(path.join(REPOSITORY, folder)).map((name) => `${folder}/${name}`),
  ),
];

/** What cannot be run here, by its page and its first line. */
const NOT_RUN: readonly { page: string; firstLine: string; reason: string }[] = [
  {
    page: 'README.md',
    firstLine: 'npm start',
    reason: 'installs and builds; the `leasehold up` that it ends in is what all blocks run beside',
  },
  { page: 'README.md', firstLine: 'npm test', reason: 'would run this test' },
  {
    page: 'docs/guides/several-datacenters.md',
    firstLine: 'npm run datacenters',
    reason: 'is a prompt; what it starts is what tools/datacenters tests',
  },
  ...[
    '$ npx leasehold connect lobby --program room --datacenter dc2',
    "$ npx leasehold keys revoke lobby --datacenter dc2 --reason 'move it'",
  ].map((firstLine) => ({
    page: 'docs/guides/several-datacenters.md',
    firstLine,
    reason: 'wants the three datacenters of `npm run datacenters`, not the one of `npm start`',
  })),
  {
    page: 'libs/client/README.md',
    firstLine: 'mkdir my-service && cd my-service',
    reason: 'installs packages; tools/packages/packages.process.nightly.test.ts does it',
  },
  {
    page: 'libs/client/README.md',
    firstLine: 'export LEASEHOLD_URL=http://127.0.0.1:4600 LEASEHOLD_TOKEN=lh_…',
    reason: 'has a token that the reader makes',
  },
  {
    page: 'docs/quick-start.md',
    firstLine: 'mkdir leasehold-trial && cd leasehold-trial',
    reason: 'installs a package; the `leasehold up` that it ends in is what all blocks run beside',
  },
  {
    page: 'docs/quick-start.md',
    firstLine: 'mkdir ~/quick-start && cd ~/quick-start',
    reason:
      'installs a package; tools/packages/packages.process.nightly.test.ts does it in an empty folder',
  },
  {
    page: 'docs/guides/run-a-command.md',
    firstLine:
      '0 3 * * * LEASEHOLD_URL=https://leasehold.example LEASEHOLD_TOKEN_FILE=/etc/leasehold/token leasehold leases run jobs/nightly --held-exit 0 -- /usr/local/bin/nightly',
    reason: 'is a line of a crontab',
  },
  {
    page: 'docs/guides/backend-per-key.md',
    firstLine: '{',
    reason: 'is the file of a drone, which apps/docs/src/code-blocks.test.ts checks',
  },
  ...[
    "import { createServer } from 'node:http';",
    'import os',
    "npx leasehold up --program echo='node echo.mjs' --watch",
    'npx leasehold connect demo --program echo',
    '{',
  ].map((firstLine) => ({
    page: 'docs/guides/own-program.md',
    firstLine,
    reason:
      'wants a `leasehold up` of its own; apps/cli/src/up/up.process.test.ts runs the same, and up-file.test.ts reads the file',
  })),
  ...[
    "import { createServer } from 'node:http';",
    "npx leasehold up --program echo='node echo.mjs'",
    'npx leasehold connect lobby --program echo --idle-stop 60s --url --user ada --may-start',
  ].map((firstLine) => ({
    page: 'docs/guides/browser-to-room.md',
    firstLine,
    reason:
      'wants a `leasehold up` of its own; apps/gateway/src/gateway.process.test.ts and e2e/gateway do the same',
  })),
  ...[
    "import Redis from 'ioredis';",
    "await redlock.using(['user:42'], 30_000, (redlockSignal) =>",
  ].map((firstLine) => ({
    page: 'docs/guides/from-redlock.md',
    firstLine,
    reason: 'needs a Redis, which is no part of the workspace',
  })),
  {
    page: 'docs/recipes/preview-environments.md',
    firstLine:
      'leasehold connect "$CI_COMMIT_REF_SLUG" --namespace previews --program preview --url --user reviewers --may-start --expires 30d',
    reason: 'needs a container engine; the test of examples/preview-environments has one',
  },
  {
    page: 'docs/recipes/terraform.md',
    firstLine: 'export TERRAFORM_LEASE=terraform/shop-production TERRAFORM_WAIT=1h',
    reason: 'needs Terraform; integrations/terraform runs the script with a stand-in',
  },
  {
    page: 'docs/recipes/gateway-names.md',
    firstLine: 'location / {',
    reason: 'is a part of the configuration of nginx',
  },
  {
    page: 'docs/recipes/gateway-names.md',
    firstLine:
      'export LEASEHOLD_URL=https://leasehold.example LEASEHOLD_TOKEN=lh_… # of the role gateway',
    reason: 'runs a gateway with the names, the certificate and the token of the reader',
  },
  {
    page: 'docs/recipes/deploy-gate.md',
    firstLine: "npx leasehold env freeze add shop/production --until 2h --reason 'the audit is on'",
    reason:
      'names a freeze that the reader makes; apps/cli/src/commands/leases.process.test.ts runs the same',
  },
  {
    page: 'docs/http-api.md',
    firstLine:
      'data: {"id":"1.42","at":"2026-11-25T10:00:00.000Z","face":"lease","namespace":"http-api","name":"1","kind":"granted",…}',
    reason: 'is what the block above it prints, shortened',
  },
  {
    page: 'docs/recipes/fencing-other-stores.md',
    firstLine:
      '-- KEYS[1] a hash; ARGV[1] the token, padded; ARGV[2] the value, or nothing to show the token.',
    reason: 'needs a Redis, which is no part of the workspace',
  },
];

const SHELL_LANGUAGES = ['sh', 'bash', 'console'];

const blocks = (
  await Promise.all(
    PAGES.filter((page) => existsSync(path.join(REPOSITORY, page))).map(async (page) =>
      blocksOf(page, await readFile(path.join(REPOSITORY, page), 'utf8')),
    ),
  )
).flat();

const isListed = (block: Block): boolean =>
  NOT_RUN.some(({ page, firstLine }) => page === block.page && firstLine === block.lines[0]);
const toRun = blocks.filter((block) => !isListed(block));
const unmarked = toRun.filter((block) => block.mark?.kind !== 'file');
const quotes = toRun.filter((block) => block.mark?.kind === 'file');
const modules = unmarked.filter(({ language }) => ['ts', 'js'].includes(language));
const statements = unmarked.filter(
  ({ language, mark }) => language === 'sql' && mark?.value === 'held-lease',
);
const shellPages = PAGES.map((page) => ({
  page,
  steps: unmarked.filter(
    (block) => block.page === page && [...SHELL_LANGUAGES, 'json'].includes(block.language),
  ),
})).filter(({ steps }) => steps.length > 0);

const named = (list: readonly Block[]): [string, Block][] =>
  list.map((block) => [placeOf(block), block]);

let stage: Stage;
let problems: string;
let failures: Map<Block, unknown>;

beforeAll(async () => {
  stage = await setStage();
  await writeModules(modules, stage);
  [problems, failures] = await Promise.all([compileProblems(), runModules(modules, stage)]);
}, 120_000);

afterAll(async () => {
  await removeModules();
  await stage.close();
});

test('every block is run, or listed with a reason', () => {
  const known = [...quotes, ...modules, ...statements, ...shellPages.flatMap(({ steps }) => steps)];

  expect(toRun.filter((block) => !known.includes(block)).map(placeOf)).toEqual([]);
});

test('every block that is listed exists', () => {
  const found = NOT_RUN.filter(({ page, firstLine }) =>
    blocks.some((block) => block.page === page && block.lines[0] === firstLine),
  );

  expect(found).toEqual(NOT_RUN);
});

test('all TypeScript compiles', () => {
  expect(problems).toBe('');
});

describe('a module runs to its end', () => {
  test.each(named(modules))('%s', (_place, block) => {
    expect(failures.get(block)).toBeUndefined();
  });
});

describe('what is quoted from a file is in it, word for word, and has a test', () => {
  test.each(named(quotes))('%s', async (_place, block) => {
    const file = path.join(REPOSITORY, block.mark?.value ?? '');
    const text = await readFile(file, 'utf8');
    const { dir, name } = path.parse(file);
    const tests = readdirSync(dir).filter((one) => one.endsWith('.test.ts'));

    expect(text).toContain(block.lines.join('\n'));
    const mentions = await Promise.all(tests.map((one) => readFile(path.join(dir, one), 'utf8')));
    expect(mentions.some((mention) => mention.includes(`${name}.`))).toBe(true);
  });
});

describe('commands print what the page shows', () => {
  test.each(shellPages)('$page', async ({ steps }) => {
    const shell = openShell(stage.folder, {
      NODE: process.execPath,
      REPOSITORY,
      LEASEHOLD_HOME: path.join(stage.folder, '.leasehold'),
    });
    try {
      let last: Said | undefined;
      for (const block of steps) {
        if (block.language === 'json') expectJson(block, last);
        else if (block.language === 'console') await expectConsole(block, shell);
        else last = await expectDone(block, shell, stage.adapt(block.lines.join('\n')));
      }
    } finally {
      await shell.close();
    }
  });
});

describe('SQL commits under a lease, and is refused without one', () => {
  test.each(named(statements))('%s', async (_place, block) => {
    expect(await runUnderLease(block, stage)).toEqual({
      whileHeld: 'committed',
      afterRelease: 'LH001',
    });
  });
});

async function expectDone(block: Block, shell: Shell, command: string): Promise<Said> {
  const said = await shell.run(command);
  expect({ at: placeOf(block), ...said }).toMatchObject({ exitCode: 0 });
  return said;
}

function expectJson(block: Block, last: Said | undefined): void {
  const shown: unknown = JSON.parse(block.lines.join('\n'));
  const actual: unknown = JSON.parse(last?.stdout ?? '');
  expect({ at: placeOf(block), problem: shapeProblem(shown, actual) }).toEqual({
    at: placeOf(block),
    problem: undefined,
  });
}

/** Runs each `$ command`, and compares what it prints with the lines below it. */
async function expectConsole(block: Block, shell: Shell): Promise<void> {
  const meanings = new Map<string, string>();
  const steps = block.lines.join('\n').split(/^\$ /mu).slice(1);
  expect(steps.length).toBeGreaterThan(0);
  for (const step of steps) {
    const [command = '', ...shown] = step.split('\n');
    let adapted = stage.adapt(command);
    for (const [word, meaning] of meanings) adapted = adapted.replaceAll(word, meaning);
    const { stdout } = await expectDone(block, shell, adapted);
    const match = matchOutput(shown.join('\n'), stdout);
    // A failure then shows the page's text beside what was printed.
    if (match === undefined) expect(stdout).toBe(shown.join('\n'));
    for (const [word, meaning] of match ?? []) meanings.set(word, meaning);
  }
}
