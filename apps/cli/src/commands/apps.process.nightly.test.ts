import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createTestDatabase } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { runCommand, startCommand, type Ended } from '../testing/command-line.ts';
import { controllerThatAnswers } from '../testing/in-process.ts';

let folder: string;
let port: string;
let server: net.Server;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'leasehold-failing-'));
  server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  port = String((server.address() as net.AddressInfo).port);
});
afterAll(() => {
  server.close();
  rmSync(folder, { recursive: true, maxRetries: 10 });
});

function environment(more: Record<string, string> = {}): Record<string, string> {
  return {
    LEASEHOLD_HOME: join(folder, 'home'),
    LEASEHOLD_URL: 'http://127.0.0.1:1',
    LEASEHOLD_TOKEN: `lh_${'a'.repeat(43)}`,
    ...more,
  };
}

describe('a program that cannot start ends with a code that is not zero, and the reason', () => {
  test('a drone whose state folder is a file', async () => {
    const config = { droneId: 'd1', stateDir: '/dev/null', programs: {} };
    writeFileSync(join(folder, 'bad.json'), JSON.stringify(config));

    const words = ['drone', '--config', join(folder, 'bad.json')];
    const ended: Ended = await startCommand(words, environment()).ended;

    expect(ended.exitCode).toBe(1);
    expect(ended.stdout).toMatch(/could not start/u);
  });

  test.each([
    { of: 'a controller', words: ['controller'], variable: 'LEASEHOLD_PORT' },
    { of: 'a console', words: ['console'], variable: 'LEASEHOLD_CONSOLE_PORT' },
    { of: 'a gateway', words: ['gateway', 'run'], variable: 'LEASEHOLD_GATEWAY_LISTEN' },
  ])('$of whose port is taken', async ({ words, variable }) => {
    const taken = variable.endsWith('LISTEN') ? `127.0.0.1:${port}` : port;
    const { url } = await createTestDatabase();
    const env = environment({ DATABASE_URL: url, [variable]: taken });

    const ended = await startCommand(words, env).ended;

    expect(ended.exitCode).toBe(1);
    expect(ended.stderr).toContain(`127.0.0.1:${port} is in use: set ${variable} to another port.`);
  });
});

describe('a command that is done, and whose reader takes nothing yet,', () => {
  test('writes all when the reader takes it, long after', async () => {
    const items = Array.from({ length: 5_000 }, (_, at) => ({ at, text: 'x'.repeat(1_000) }));
    const { env } = await controllerThatAnswers(() => ({ items }));
    const { child, ended } = startCommand(['keys', 'ls', '--json'], environment(env));
    child.stdout?.pause();
    // It has printed all, and has nothing else to do.
    await once(child, 'disconnect');
    // Together they take longer than a command waits for anything else.
    for (let count = 0; count < 3; count += 1) await runCommand(['--help'], environment());
    child.stdout?.resume();

    const { exitCode, stdout } = await ended;

    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ items: { length: items.length } });
  });
});
