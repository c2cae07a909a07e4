/** `leasehold env run`, built, against a controller as it ships: who waits, who is superseded, and what ends a command. */
import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { startCommand } from './testing/command-line.ts';
import { aPipeline, finish, inLine, written } from './testing/pipelines.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

test('env run --supersede ends those that wait with exit code 6; the newest follows what runs', async () => {
  const pipeline = aPipeline(cli);
  const first = pipeline.deploy('1');
  await written(pipeline, 'begin 1');
  const second = pipeline.deploy('2', '--wait', '10m');
  await inLine(pipeline, 'ci-2');
  await waitUntil(() =>
    second.said().stderr.includes('place 1 in line: ci-1 (deploy 1) has it since'),
  );

  const third = pipeline.deploy('3', '--wait', '10m', '--supersede');
  const superseded = await second.ended;
  await inLine(pipeline, 'ci-3');
  const shown = await cli.run('env', 'show', pipeline.environment);
  await finish(pipeline, '1');
  await written(pipeline, 'begin 3');
  await finish(pipeline, '3');

  expect(superseded.exitCode).toBe(6);
  expect(superseded.stderr).toContain('has taken the place of this one: ci-3');
  expect(shown.stdout).toMatch(/waiting\n {2}1\. ci-3 \(deploy 3\), since /u);
  expect(shown.stdout).toMatch(/superseded\n {2}ci-2 \(deploy 2\), by ci-3 at /u);
  expect((await first.ended).exitCode).toBe(0);
  expect((await third.ended).exitCode).toBe(0);
  expect((await pipeline.notes()).replaceAll(/finish \d\n/gu, '')).toBe(
    'begin 1\nend 1\nbegin 3\nend 3\n',
  );
});

test('env run --supersede-running stops what runs with SIGTERM, and begins when that has ended', async () => {
  const pipeline = aPipeline(cli);
  const first = pipeline.deploy('1', '--ttl', '5s');
  await written(pipeline, 'begin 1');

  const second = pipeline.deploy('2', '--wait', '10m', '--supersede-running');
  await written(pipeline, 'begin 2');
  await finish(pipeline, '2');

  const ended = await first.ended;
  expect(ended.exitCode).toBe(125);
  expect(ended.stderr).toContain('is being revoked (superseded by ci-2 (2))');
  expect((await second.ended).exitCode).toBe(0);
  expect((await pipeline.notes()).split('\n').slice(0, 3)).toEqual([
    'begin 1',
    'term 1',
    'begin 2',
  ]);
  const { items } = await cli.api().audit.list.query({ action: 'environments.supersede' });
  expect(items[0]?.detail).toMatchObject({ name: pipeline.name, holder: 'ci-2', waiting: [] });
});

test('env run --override passes a freeze with its reason, which the audit keeps', async () => {
  const pipeline = aPipeline(cli);
  const add = ['env', 'freeze', 'add', pipeline.environment, '--until', '1h', '--reason', 'audit'];
  await cli.answer(...add);
  const overriding = pipeline.deploy('1', '--override', 'the login is down');
  await written(pipeline, 'begin 1');
  await finish(pipeline, '1');

  expect((await overriding.ended).exitCode).toBe(0);
  const [granted] = await cli.query<{ reason: string }>(
    `select detail -> 'override' ->> 'reason' as reason from leasehold.lease_event
     where name = $1 and kind = 'granted'`,
    [pipeline.name],
  );
  expect(granted).toEqual({ reason: 'the login is down' });
});

test('env run --override by a token that may not is refused, and tells who may', async () => {
  const { environment } = aPipeline(cli);
  const freeze = ['env', 'freeze', 'add', environment, '--until', '1h', '--allow', 'olga'];
  await cli.answer(...freeze, '--reason', 'audit');
  const { secret } = await cli
    .api()
    .tokens.create.mutate({ name: `ci-${randomUUID()}`, role: 'client' });
  const args = ['env', 'run', environment, '--action', 'deploy', '--override', 'urgent'];
  const env = { ...cli.env, LEASEHOLD_TOKEN: secret };
  const refused = await startCommand([...args, '--', 'true'], env).ended;

  expect(refused.stderr).toContain(
    'These may: the role operator, the role admin, olga (from another datacenter a name is NAME@DATACENTER).',
  );
  expect(refused.exitCode).toBe(6);
});

test('a freeze of an environment that nobody has held asks whether its name is right', async () => {
  const namespace = `frozen-${randomUUID()}`;
  const how = ['--until', '1h', '--reason', 'audit'];
  const unknown = await cli.run('env', 'freeze', 'add', `${namespace}/prod`, ...how);
  const all = await cli.run('env', 'freeze', 'add', '--namespace', namespace, ...how);

  expect(unknown.stdout).toContain('Nobody has held this environment yet');
  expect([unknown.exitCode, all.exitCode]).toEqual([0, 0]);
  expect(all.stdout).not.toContain('Nobody has held');
});

test('a freeze of an environment of which only the history is left is of one that is known', async () => {
  const pipeline = aPipeline(cli);
  const of = { environment: ['ci', pipeline.name], action: 'deploy', holder: 'ci' };
  await cli.api().environments.tryAcquire.mutate({ ...of, localTimeMs: 0 });
  await cli.query('delete from leasehold.lease where name = $1', [pipeline.name]);

  const how = ['--until', '1h', '--reason', 'audit'];
  const frozen = await cli.run('env', 'freeze', 'add', pipeline.environment, ...how);

  expect(frozen.stdout).toContain('is frozen until');
  expect(frozen.stdout).not.toContain('Nobody has held');
});

test('env show tells who waits in a freeze for an environment that nobody has held', async () => {
  const pipeline = aPipeline(cli);
  const unknown = await cli.run('env', 'show', pipeline.environment);
  const freeze = ['env', 'freeze', 'add', pipeline.environment, '--until', '1h'];
  await cli.answer(...freeze, '--reason', 'audit');
  pipeline.deploy('1', '--wait', '2h');
  await inLine(pipeline, 'ci-1');

  const shown = await cli.run('env', 'show', pipeline.environment);
  const { queue } = await cli.answer<{ queue: unknown }>('env', 'show', pipeline.environment);

  expect(unknown.stderr).toContain('nobody holds it, or has lately');
  expect(unknown.exitCode).not.toBe(0);
  expect(shown.stdout).toMatch(
    /frozen +until .* because audit\nwaiting\n {2}1\. ci-1 \(deploy 1\), since /u,
  );
  expect(queue).toMatchObject({ waiting: [{ waiter: 'ci-1' }] });
});

test('env run waits for the end of a freeze that is shorter than --wait, and is refused by a longer one', async () => {
  const pipeline = aPipeline(cli);
  const frozen = await cli.answer<{ freeze: { freezeId: string } }>(
    ...['env', 'freeze', 'add', pipeline.environment, '--until', '1h', '--reason', 'audit'],
  );
  const refused = pipeline.deploy('1', '--wait', '10m');
  const chosen = await pipeline.deploy('3', '--held-exit', '75').ended;
  const waiting = pipeline.deploy('2', '--wait', '2h');
  await waitUntil(() => waiting.said().stderr.includes('because audit'));
  await cli.run('env', 'freeze', 'remove', frozen.freeze.freezeId, '--reason', 'done');
  await written(pipeline, 'begin 2');
  await finish(pipeline, '2');

  expect(chosen.exitCode).toBe(75);
  expect(await refused.ended).toMatchObject({
    exitCode: 6,
    stderr: expect.stringContaining('The environment is frozen until') as string,
  });
  expect((await waiting.ended).exitCode).toBe(0);
});
