import { afterAll, beforeAll, expect, test } from 'vitest';
import { startCliController, type CliController } from '../../testing/cli-controller.ts';

let cli: CliController;

beforeAll(async () => {
  cli = await startCliController();
}, 60_000);

afterAll(() => cli.close());

test('tokens show prints the bindings of a token, its own limits, and those of its role', async () => {
  const made = await cli.answer<{ tokenId: string }>(
    ...['tokens', 'create', 'script', '--role', 'client', '--namespace', 'team-a'],
    ...['--limit', 'waiters=7'],
  );

  const shown = await cli.run('tokens', 'show', made.tokenId);

  expect(shown.stdout).toMatch(/^namespaces +team-a$/mu);
  expect(shown.stdout).toMatch(/^waiters +\S+ +7 +the token$/mu);
  expect(shown.stdout).toMatch(/^callsPerSecond +\S+ +\d+ +its role$/mu);
});

test('tokens create names the limits that exist when one is unknown', async () => {
  const { exitCode, stderr } = await cli.run(
    ...['tokens', 'create', 'script', '--role', 'client', '--limit', 'speed=7'],
  );

  expect(exitCode).toBe(2);
  expect(stderr).toContain('callsPerSecond');
});
