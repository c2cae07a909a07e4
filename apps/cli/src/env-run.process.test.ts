/** `leasehold env run`, built, against a controller as it ships: who waits, who is superseded, and what ends a command. */
import { randomUUID } from 'node:crypto';
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { startCommand, type Started } from './testing/command-line.ts';
import { raceDeployments } from './testing/deployment-races.ts';

let cli: CliStage;
let folder: string;

beforeAll(async () => {
  cli = await CliStage.open();
  folder = await mkdtemp(join(tmpdir(), 'leasehold-env-run-'));
}, 60_000);

afterEach(() => {
  cli.proxy.heal();
});

afterAll(async () => {
  await cli.close();
  await rm(folder, { recursive: true, maxRetries: 10 });
});

/** Deploys in an environment of its own. */
function aPipeline() {
  const name = `prod-${randomUUID()}`;
  const file = join(folder, name);
  const environment = `ci/${name}`;
  return {
    name,
    environment,
    /** What the deployments have written. */
    notes: () => readFile(file, 'utf8').catch(() => ''),
    /** Writes its version as it begins, and at SIGTERM; goes on until it is stopped, or its file tells it to end. */
    deploy(version: string, ...options: string[]): Started {
      const script = `
        trap 'echo "term ${version}" >>"$0"; exit 3' TERM
        echo "begin ${version}" >>"$0"
        while ! grep -q "finish ${version}" "$0"; do sleep 0.05; done
        echo "end ${version}" >>"$0"`;
      const started = cli.start(
        ...['env', 'run', environment, '--action', 'deploy', '--version', version],
        ...['--holder', `ci-${version}`, ...options, '--', 'sh', '-c', script, file],
      );
      onTestFinished(() => void started.child.kill('SIGKILL'));
      return started;
    },
    queue: () => cli.api().environments.queue.query({ namespace: 'ci', name }),
    file,
  };
}

type Pipeline = ReturnType<typeof aPipeline>;

const written = (pipeline: Pipeline, text: string): Promise<unknown> =>
  waitUntil(async () => (await pipeline.notes()).includes(text), { what: text });

const finish = (pipeline: Pipeline, version: string): Promise<void> =>
  appendFile(pipeline.file, `finish ${version}\n`);

const inLine = (pipeline: Pipeline, ...holders: string[]): Promise<unknown> =>
  waitUntil(
    async () => {
      const { waiting } = await pipeline.queue();
      return waiting.map(({ waiter }) => waiter).join() === holders.join();
    },
    { what: `the line ${holders.join()}` },
  );

test('env run --supersede ends those that wait with exit code 6; the newest follows what runs', async () => {
  const pipeline = aPipeline();
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
  const pipeline = aPipeline();
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

test('env run --order newest comes before those that wait longer', async () => {
  const pipeline = aPipeline();
  const first = pipeline.deploy('1');
  await written(pipeline, 'begin 1');
  const old = pipeline.deploy('2', '--wait', '10m');
  await inLine(pipeline, 'ci-2');
  const newest = pipeline.deploy('3', '--wait', '10m', '--order', 'newest');
  await inLine(pipeline, 'ci-3', 'ci-2');
  await finish(pipeline, '1');
  await written(pipeline, 'begin 3');
  await finish(pipeline, '3');
  await written(pipeline, 'begin 2');
  await finish(pipeline, '2');

  const ended = await Promise.all([first.ended, newest.ended, old.ended]);
  expect(ended.map(({ exitCode }) => exitCode)).toEqual([0, 0, 0]);
  const refused = await pipeline.deploy('4', '--order', 'youngest').ended;
  expect(refused.exitCode).toBe(2);
  expect(refused.stderr).toContain('oldest, newest');
});

test('env run --override passes a freeze with its reason, which the audit keeps', async () => {
  const pipeline = aPipeline();
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
  const { environment } = aPipeline();
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
  const pipeline = aPipeline();
  const first = pipeline.deploy('1');
  await written(pipeline, 'begin 1');
  await finish(pipeline, '1');
  await first.ended;
  await cli.query('delete from leasehold.lease where name = $1', [pipeline.name]);

  const how = ['--until', '1h', '--reason', 'audit'];
  const frozen = await cli.run('env', 'freeze', 'add', pipeline.environment, ...how);

  expect(frozen.stdout).toContain('is frozen until');
  expect(frozen.stdout).not.toContain('Nobody has held');
});

test('env show tells who waits in a freeze for an environment that nobody has held', async () => {
  const pipeline = aPipeline();
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

test('env run keeps its place in line while its controller starts again', async () => {
  const pipeline = aPipeline();
  const first = pipeline.deploy('1', '--ttl', '2m');
  await written(pipeline, 'begin 1');
  const second = pipeline.deploy('2', '--wait', '10m');
  await inLine(pipeline, 'ci-2');
  const third = pipeline.deploy('3', '--wait', '10m');
  await inLine(pipeline, 'ci-2', 'ci-3');

  await cli.controller().stop();
  await cli.restartController();
  await finish(pipeline, '1');
  await written(pipeline, 'begin 2');
  await inLine(pipeline, 'ci-3');
  await finish(pipeline, '2');
  await written(pipeline, 'begin 3');
  await finish(pipeline, '3');

  expect((await first.ended).exitCode).toBe(0);
  expect((await second.ended).exitCode).toBe(0);
  expect((await third.ended).exitCode).toBe(0);
}, 60_000);

test('env run waits for the end of a freeze that is shorter than --wait, and is refused by a longer one', async () => {
  const pipeline = aPipeline();
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

test('deployments under env run that are killed, frozen and cut off as they are superseded are at no time two at work', async () => {
  const races = await raceDeployments(cli, { environments: 3, rounds: 3 });

  expect(races).toMatchObject({ overlaps: [], staleWrites: [] });
  expect(races.supersededCount).toBeGreaterThan(0);
  expect(races.writesCount).toBeGreaterThan(0);
}, 120_000);
