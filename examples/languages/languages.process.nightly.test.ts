/**
 * Each example, run as a reader would run it, against a controller as it ships. The languages that the
 * machine lacks are printed; with `npm run test:all` none may be missing.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  createTestDatabase,
  startControllerProcess,
  startProcess,
  type ControllerProcess,
  type TestProcess,
} from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { languagesHere } from './testing/languages.ts';

const run = promisify(execFile);
const { present, missing } = languagesHere();
const left = missing.map(({ name, needs }) => `${name} (needs ${needs.join(' and ')})`).join(', ');
if (left !== '') console.log(`examples/languages: this machine has not, so left out: ${left}`);
const isAll = process.env['LEASEHOLD_TEST_SUITE'] === 'all';

/** A compiler that runs for the first time compiles its own library. */
const RUN_MS_MAX = 240_000;

let folder: string;
let controller: ControllerProcess;
let store: TestProcess;
let env: Record<string, string | undefined>;
const endings: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'leasehold-languages-'));
  endings.unshift(() => rm(folder, { recursive: true, force: true, maxRetries: 10 }));
  const database = await createTestDatabase();
  endings.unshift(() => database.drop());
  controller = await startControllerProcess({ databaseUrl: database.url, home: folder });
  endings.unshift(() => controller.stop());
  const file = path.join(import.meta.dirname, 'store.mjs');
  store = await startProcess({ name: 'store', args: [file], env: { PORT: '0' } });
  endings.unshift(() => store.stop());
  const credentials = JSON.parse(
    await readFile(path.join(folder, 'credentials.json'), 'utf8'),
  ) as Record<string, string>;
  env = {
    PATH: process.env['PATH'],
    HOME: process.env['HOME'],
    // What a compiler keeps goes with the test.
    GOCACHE: path.join(folder, 'go-cache'),
    GOPATH: path.join(folder, 'go'),
    LEASEHOLD_URL: controller.url,
    LEASEHOLD_TOKEN: credentials['client'],
    STORE_URL: String(store.ready['url']),
  };
});

afterAll(async () => {
  for (const end of endings) await end();
});

describe('a lease from another language', () => {
  test('is tried in every language that this machine has', () => {
    expect(present.map(({ name }) => name)).not.toEqual([]);
    expect(isAll ? left : '').toBe('');
  });

  test.each(present)(
    '$name: it is acquired, fences writes, is renewed and released, and its events are followed',
    { timeout: RUN_MS_MAX },
    async ({ name, cwd, command: [program = '', ...args] }) => {
      const key = `of-${name.toLowerCase()}`;

      const { stdout, stderr } = await run(program, [...args, key], {
        cwd,
        env,
        timeout: RUN_MS_MAX,
      });

      const [first = '', ...others] = stdout.trimEnd().split('\n');
      expect(stderr).toBe('');
      expect(first).toMatch(/^acquired with token \d+$/u);
      expect(others).toEqual([
        'the store: written',
        'renewed',
        'time left: yes',
        'released',
        'acquired again with a larger token: yes',
        'the store: written',
        expect.stringMatching(
          /^the store, to a late write of the first grant: refused: a holder with the token \d+ has written$/u,
        ),
        'released',
        'event: granted',
        'event: released',
        'event: granted',
        'event: released',
      ]);
    },
  );
});
