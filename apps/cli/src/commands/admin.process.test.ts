import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';
import { startCommand } from '../testing/command-line.ts';
import { runHere } from '../testing/in-process.ts';

let cli: CliStage;

/** What both commands print of a token. */
const SHARED_FACTS = /^(?:token|name|role|drone|namespaces|programs|created|ends) +(\S.*)$/gmu;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

test('tokens show prints the bindings of a token, its own limits, and those of its role', async () => {
  const made = await cli.answer<{ tokenId: string }>(
    ...['tokens', 'create', 'script', '--role', 'client', '--namespace', 'team-a'],
    ...['--limits', 'waiters=7'],
  );

  const shown = await cli.run('tokens', 'show', made.tokenId);

  expect(shown.stdout).toMatch(/^namespaces +team-a$/mu);
  expect(shown.stdout).toMatch(/^waiters +\S+ +7 +the token$/mu);
  expect(shown.stdout).toMatch(/^callsPerSecond +\S+ +\d+ +its role$/mu);
});

test('tokens ls and tokens show say the same of every kind of token', async () => {
  const kinds = [
    ['plain', '--role', 'viewer'],
    ['bound', '--role', 'client', '--namespace', 'team-b', '--program', 'room'],
    ['machine', '--role', 'drone', '--drone', 'd7', '--program', 'room'],
    ['short', '--role', 'viewer', '--expires', '2098-01-01T00:00:00Z'],
  ] as const;
  const made = [];
  for (const [name, ...options] of kinds) {
    made.push(await cli.answer<{ tokenId: string }>('tokens', 'create', name, ...options));
  }
  await cli.run('tokens', 'revoke', made[0]?.tokenId ?? '');

  const list = await cli.run('tokens', 'ls');

  for (const { tokenId } of made) {
    const shown = await cli.run('tokens', 'show', tokenId);
    const line = list.stdout.split('\n').find((one) => one.startsWith(tokenId)) ?? '';
    for (const [, value = ''] of shown.stdout.matchAll(SHARED_FACTS)) {
      expect(line).toContain(value);
    }
  }
});

test('tokens create takes the time that is left instead of an instant', async () => {
  const answer = await cli.answer<{ tokenId: string }>(
    ...['tokens', 'create', 'monthly', '--role', 'viewer', '--expires', '30d'],
  );

  const { token } = await cli.answer<{ token: { createdAt: string; expiresAt: string } }>(
    ...['tokens', 'show', answer.tokenId],
  );

  const days = (Date.parse(token.expiresAt) - Date.parse(token.createdAt)) / 86_400_000;
  expect(days).toBeCloseTo(30, 3);
});

test('a context goes to its controllers with its token, and a refused token names the context', async () => {
  const { secret } = await cli.answer<{ secret: string }>(
    ...['tokens', 'create', 'staging', '--role', 'viewer'],
  );
  const { LEASEHOLD_HOME = '', LEASEHOLD_URL = '' } = cli.env;
  const env = { LEASEHOLD_HOME, XDG_CONFIG_HOME: join(cli.home, 'config') };
  const here = (...args: string[]) => runHere(args, env);
  const add = ['context', 'add', '--controllers', LEASEHOLD_URL, '--token-stdin'];

  // In a process of its own: it reads a real standard input.
  const added = await startCommand([...add, 'staging'], env, { input: `${secret}\n` }).ended;
  const wrong = await runHere([...add, 'wrong'], env, `lh_${'x'.repeat(43)}\n`);
  const nowhere = await here('tokens', 'ls');
  const used = await here('context', 'use', 'staging');
  const list = await here('keys', 'ls', '--all');
  const forbidden = await here('tokens', 'ls');
  const refused = await here('keys', 'ls', '--context', 'wrong');

  expect([added, wrong]).toMatchObject([{ exitCode: 0 }, { exitCode: 0 }]);
  expect(nowhere).toMatchObject({ exitCode: 3 });
  expect(used).toMatchObject({ exitCode: 0, stderr: '' });
  expect(list).toMatchObject({ exitCode: 0, stderr: '' });
  expect(forbidden).toMatchObject({ exitCode: 5 });
  expect(forbidden.stderr).toContain('token of context staging');
  expect(refused).toMatchObject({ exitCode: 5 });
  expect(refused.stderr).toContain('token of context wrong was refused');
});

test('tokens create names the limits that exist when one is unknown', async () => {
  const { exitCode, stderr } = await cli.run(
    ...['tokens', 'create', 'script', '--role', 'client', '--limits', 'speed=7'],
  );

  expect(exitCode).toBe(2);
  expect(stderr).toContain('callsPerSecond');
});

test('tokens create prints a secret that works, ls lists its token without it, and revoke ends it', async () => {
  const created = await cli.run(
    ...['tokens', 'create', 'reader', '--role', 'viewer', '--expires', '2099-01-01T00:00:00Z'],
  );
  const [, secret = '', tokenId = ''] =
    /^(lh_\S+)\n[^]*`leasehold tokens revoke (\S+)` ends it/u.exec(created.stdout) ?? [];
  const listAs = () => runHere(['keys', 'ls', '--all'], { ...cli.env, LEASEHOLD_TOKEN: secret });

  const before = await listAs();
  const list = await cli.run('tokens', 'ls');
  const revoked = await cli.run('tokens', 'revoke', tokenId, '--reason', 'leaked');
  const again = await cli.run('tokens', 'revoke', tokenId);
  const after = await listAs();

  expect(before).toMatchObject({ exitCode: 0, stdout: 'No keys.\n' });
  expect(list.stdout).toMatch(new RegExp(`^${tokenId} +reader +viewer .*2099-01-01`, 'mu'));
  expect(list.stdout).not.toContain(secret);
  expect(revoked.stdout).toBe(`${tokenId} is revoked.\n`);
  expect(again.stdout).toBe(`Nothing changed: ${tokenId} was not valid.\n`);
  expect(after.exitCode).toBe(5);
});
