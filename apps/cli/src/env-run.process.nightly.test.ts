import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from './testing/cli-controller.ts';
import { aPipeline, finish, inLine, written } from './testing/pipelines.ts';

let cli: CliStage;

beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);

afterAll(() => cli.close());

test('env run --order newest comes before those that wait longer', async () => {
  const pipeline = aPipeline(cli);
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

test('env run keeps its place in line while its controller starts again', async () => {
  const pipeline = aPipeline(cli);
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
