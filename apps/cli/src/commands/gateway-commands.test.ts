import { expect, test } from 'vitest';
import { controllerThatAnswers, runHere } from '../testing/in-process.ts';

const AT = '2030-01-02T03:04:05.000Z';

const aGateway = {
  gatewayId: 'gw-1',
  isAlive: true,
  connections: 2,
  routes: 3,
  requests: 4,
  version: '1.0.0',
  seenAt: AT,
};

test('gateway ls -o name prints names alone, for scripts', async () => {
  const url = 'https://rooms.example.com';
  const some = await controllerThatAnswers(() => ({ items: [aGateway], url, asOf: AT }));
  const none = await controllerThatAnswers(() => ({ items: [], url, asOf: AT }));

  const table = await runHere(['gateway', 'ls'], some.env);
  const wide = await runHere(['gateway', 'ls', '-o', 'wide'], some.env);
  const named = await runHere(['gateway', 'ls', '-o', 'name'], some.env);
  const unnamed = await runHere(['gateway', 'ls', '-o', 'name'], none.env);

  expect(table.stdout).toMatch(/^GATEWAY .*\ngw-1 .*\n\nAt https:\/\/rooms\.example\.com\.\n$/u);
  expect(wide).toEqual(table);
  expect(named).toEqual({ exitCode: 0, stdout: 'gw-1\n', stderr: '' });
  expect(unnamed).toEqual({ exitCode: 0, stdout: '', stderr: '' });
});

test('gateway revoke begins with the datacenters that it did not reach, and ends with exit code 3', async () => {
  const unreachable = [{ datacenter: 'eu', since: null, code: 'peer.unreachable' }];
  const { env } = await controllerThatAnswers(() => ({ revokedAt: AT, unreachable }));
  const revoke = ['gateway', 'revoke', '--user', 'ada', '--reason', 'left'];

  const text = await runHere(revoke, env);
  const json = await runHere([...revoke, '--json'], env);

  expect([text.exitCode, json.exitCode]).toEqual([3, 3]);
  expect(text.stdout).toMatch(/^Not in every datacenter: repeat this command/u);
  expect(text.stdout).toContain('eu is missing: it does not answer (peer.unreachable)');
  expect(JSON.parse(json.stdout)).toEqual({ revokedAt: AT, unreachable });
});
