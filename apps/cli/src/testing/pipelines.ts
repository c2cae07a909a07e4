/** Deployments under `leasehold env run`, built, which begin and end as a test says. */
import { randomUUID } from 'node:crypto';
import { appendFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { waitUntil } from '@leasehold/testing';
import { onTestFinished } from 'vitest';
import type { CliStage } from './cli-controller.ts';
import type { Started } from './command-line.ts';

type Pipeline = ReturnType<typeof aPipeline>;

/** Deploys in an environment of its own. */
export function aPipeline(cli: CliStage) {
  const name = `prod-${randomUUID()}`;
  const file = join(cli.folder, name);
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

export const written = (pipeline: Pipeline, text: string): Promise<unknown> =>
  waitUntil(async () => (await pipeline.notes()).includes(text), { what: text });

export const finish = (pipeline: Pipeline, version: string): Promise<void> =>
  appendFile(pipeline.file, `finish ${version}\n`);

export const inLine = (pipeline: Pipeline, ...holders: string[]): Promise<unknown> =>
  waitUntil(
    async () => {
      const { waiting } = await pipeline.queue();
      return waiting.map(({ waiter }) => waiter).join() === holders.join();
    },
    { what: `the line ${holders.join()}` },
  );
