import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { expect, test } from 'vitest';

/** A program with all that keeps a process: a server, a timer, a child, a connection, a handler of signals. */
const OPEN = `
  import { spawn } from 'node:child_process';
  import net from 'node:net';
  import { endProcessAfter } from '${new URL('supervision.ts', import.meta.url).href}';
  async function main() {
    process.on('SIGTERM', () => undefined);
    setInterval(() => undefined, 1_000);
    spawn('sleep', ['30'], { stdio: 'ignore' });
    const server = net.createServer(() => undefined).listen(0, '127.0.0.1');
    await new Promise((resolve) => server.once('listening', resolve));
    net.connect(server.address().port, '127.0.0.1');
    throw new Error('ENOSPC: no space left on device');
  }
  await endProcessAfter(main());`;

test('a program that fails ends its process with code 1 and the problem, whatever it has left open', async () => {
  const args = ['--import', 'tsx', '--input-type=module', '-e', OPEN];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe'] });

  const [printed, [code]] = await Promise.all([
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);

  expect(code).toBe(1);
  expect(printed).toMatch(/^Error: ENOSPC.*\n +at /u);
});
