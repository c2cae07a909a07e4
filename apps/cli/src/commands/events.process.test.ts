import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';
import type { Started } from '../testing/command-line.ts';

let cli: CliStage;
beforeAll(async () => {
  cli = await CliStage.open();
});
afterAll(() => cli.close());

const linesOf = (tail: Started): string[] => tail.said().stdout.trimEnd().split('\n');

/** Starts a tail from the present end of the log, so that it prints every later event. */
async function startTail(...args: string[]): Promise<Started> {
  const { lastId } = await cli.api().events.head.query();
  return cli.start('events', 'tail', '--after', lastId, ...args);
}

test('events tail prints one line per event, and ends with 0 at Ctrl-C', async () => {
  const tail = await startTail('--namespace', 'lines');
  const lease = await heldLease(cli.api(), ['lines', 'a'], 'import');
  const { leaseId, fencingToken } = lease;
  await cli.api().leases.release.mutate({ leaseId, fencingToken });
  await heldLease(cli.api(), ['elsewhere'], 'import');
  await waitUntil(() => linesOf(tail).length >= 2);

  tail.child.kill('SIGINT');
  const ended = await tail.ended;

  const [granted, released] = ended.stdout.trimEnd().split('\n');
  expect(ended).toMatchObject({ exitCode: 0, stderr: '' });
  expect(granted).toMatch(
    /^\d+\.\d+ {2}\S+Z {2}lease {8}granted {10}lines\.a\/import {2}token \d+ {2}by /u,
  );
  expect(released).toMatch(/ released /u);
  expect(linesOf(tail)).toHaveLength(2);
});

test('events tail ends when its reader has gone', async () => {
  const tail = await startTail('--namespace', 'unread');
  tail.child.stdout?.destroy();

  await heldLease(cli.api(), ['unread'], 'import');

  expect(await tail.ended).toMatchObject({ exitCode: 0, stderr: '' });
});

test('events tail --json misses and repeats no event when its controller is unreachable for a while', async () => {
  const tail = await startTail(
    '--json',
    '--face',
    'lease',
    '--name',
    'survivor',
    '--kind',
    'granted',
  );
  const lease = await heldLease(cli.api(), ['away'], 'survivor');
  await waitUntil(() => linesOf(tail)[0] !== '');

  cli.proxy.drop();
  const { leaseId, fencingToken } = lease;
  await cli.api().leases.release.mutate({ leaseId, fencingToken });
  const second = await heldLease(cli.api(), ['away'], 'survivor');
  cli.proxy.heal();
  await waitUntil(() => linesOf(tail).length >= 2);
  tail.child.kill('SIGINT');
  const { stdout } = await tail.ended;

  const events = stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as { kind: string; leaseId: string });
  expect(events.map(({ kind, leaseId }) => [kind, leaseId])).toEqual([
    ['granted', lease.leaseId],
    ['granted', second.leaseId],
  ]);
});

test.each([
  [['--kind', 'renewed'], 2],
  [['--face', 'tenant'], 2],
  [['--after', 'yesterday'], 2],
  [['--after', '77.1'], 1],
])('events tail %j ends with %i', async (args, exitCode) => {
  const ended = await cli.run('events', 'tail', ...args);

  expect(ended.exitCode).toBe(exitCode);
  expect(ended.stderr).not.toBe('');
});
