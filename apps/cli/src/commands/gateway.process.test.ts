import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open({
    env: { LEASEHOLD_GATEWAY_URL: 'https://rooms.example.com' },
  });
}, 60_000);

afterAll(() => cli.close());

test('gateways are listed, and access is ended', async () => {
  expect(await cli.run('gateway', 'ls')).toMatchObject({
    exitCode: 0,
    stdout: 'No gateway reports.\n\nAt https://rooms.example.com.\n',
  });
  expect((await cli.run('doctor')).stdout).toMatch(/WRONG {2}gateway +none reports/u);
  expect(await cli.run('gateway', 'revoke', '--reason', 'x')).toMatchObject({ exitCode: 2 });
  const revoked = await cli.run('gateway', 'revoke', '--user', 'ada', '--reason', 'left');
  expect(revoked).toMatchObject({ exitCode: 0, stderr: '' });
  expect(revoked.stdout).toContain('Access that was given until');
  expect(await cli.run('gateway', 'rotate', '--reason', 'x')).toMatchObject({ exitCode: 0 });
  const { kid } = await cli.answer<{ kid: string }>(
    ...['gateway', 'rotate', '--now', '--yes', '--reason', 'a backup was lost'],
  );
  expect(kid).toMatch(/^gk-/u);
  const audit = await cli.run('audit', 'ls');
  expect(audit.stdout).toContain('gateway.rotate');
  expect(audit.stdout).toContain('gateway.revoke');
});

test('a key that is not held has no address, and without --url no access is given', async () => {
  expect(await cli.refused('connect', 'doc', '--url')).toMatchObject({ code: 'key.unheld' });
  expect(await cli.refused('open', 'doc', '--print')).toMatchObject({ code: 'key.unheld' });
  expect(await cli.refused('connect', 'doc', '--user', 'ada')).toMatchObject({ exitCode: 2 });
});
