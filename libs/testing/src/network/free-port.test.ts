import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { freePort } from './free-port.ts';

const MODULE = new URL('free-port.ts', import.meta.url).href;
/** Without its own number for the place where it begins, a process would begin where this one does. */
const PORTS_OF_ANOTHER = `
  Object.defineProperty(process, 'pid', { value: ${String(process.pid)} });
  import('${MODULE}').then(async ({ freePort }) => {
    for (let count = 0; count < 20; count += 1) console.log(await freePort());
  });
`;

test('a port that nobody listens on yet is not handed out again', async () => {
  const ports: number[] = [];
  for (let count = 0; count < 200; count += 1) ports.push(await freePort());

  expect(new Set(ports).size).toBe(200);
});

test('a port that one process was given is not given to another one', async () => {
  const args = ['--import', 'tsx', '--input-type=module', '--eval', PORTS_OF_ANOTHER];

  const printed = await Promise.all(
    [1, 2, 3].map(() => promisify(execFile)(process.execPath, args)),
  );

  const ports = printed.flatMap(({ stdout }) => stdout.trim().split('\n'));
  expect(ports).toHaveLength(60);
  expect(new Set(ports).size).toBe(60);
});
