/**
 * Each example, run as a reader would run it, against a controller as it ships. The languages that the
 * machine lacks are printed; with `npm run test:all` none may be missing.
 */
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, request as httpRequest, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
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
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
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

type Answer = (response: ServerResponse) => void;

/** An address of the controller at which the first requests for the events are answered so. */
async function startFront(...answers: Answer[]): Promise<string> {
  const server = createServer((request, response) => {
    const { method, headers, url = '' } = request;
    const answer = url.startsWith('/trpc/events.watch') ? answers.shift() : undefined;
    if (answer !== undefined) {
      answer(response);
      return;
    }
    const onward = httpRequest(new URL(url, controller.url), { method, headers }, (from) => {
      response.writeHead(from.statusCode ?? 502, from.headers);
      from.pipe(response);
    });
    onward.on('error', () => response.destroy());
    response.on('close', () => onward.destroy());
    request.pipe(onward);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`;
}

/** The body of an error, as a controller sends it. */
function refusal(leaseholdCode: string, retryable: boolean): object {
  return { message: 'refused', code: -32_000, data: { leaseholdCode, retryable } };
}

const refuse =
  (leaseholdCode: string, retryable: boolean): Answer =>
  (response) => {
    response.writeHead(429, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ error: refusal(leaseholdCode, retryable) }));
  };

const endStream =
  (leaseholdCode: string, retryable: boolean): Answer =>
  (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const data = JSON.stringify(refusal(leaseholdCode, retryable));
    response.end(`event: serialized-error\ndata: ${data}\n\n`);
  };

/** A connection that nobody ends and over which nothing comes. */
const beSilent: Answer = (response) => {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  response.write('event: connected\ndata: {}\n\n');
};

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

  test.each(present)(
    '$name: a stream of events that is refused for now, ended for now or silent is asked for again',
    { timeout: RUN_MS_MAX },
    async ({ name, cwd, command: [program = '', ...args] }) => {
      const url = await startFront(
        refuse('request.rate_limited', true),
        endStream('quota.exceeded', true),
        beSilent,
      );

      const { stdout } = await run(program, [...args, `again-${name.toLowerCase()}`], {
        cwd,
        env: { ...env, LEASEHOLD_URL: url },
        timeout: RUN_MS_MAX,
      });

      expect(stdout.trimEnd().split('\n').slice(-4)).toEqual([
        'event: granted',
        'event: released',
        'event: granted',
        'event: released',
      ]);
    },
  );

  test.each(present)(
    '$name: a stream of events that is refused permanently ends the program, which says why',
    { timeout: RUN_MS_MAX },
    async ({ name, cwd, command: [program = '', ...args] }) => {
      const url = await startFront(endStream('events.compacted', false));

      const failure = run(program, [...args, `refused-${name.toLowerCase()}`], {
        cwd,
        env: { ...env, LEASEHOLD_URL: url },
        timeout: RUN_MS_MAX,
      });

      await expect(failure).rejects.toMatchObject({
        code: 1,
        stderr: expect.stringContaining('events.compacted') as string,
      });
    },
  );
});
