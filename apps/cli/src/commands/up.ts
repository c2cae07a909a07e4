import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import { parseConfig } from '../config.ts';
import type { RunFile } from '../home.ts';
import { createProgress, createSilentProgress } from '../up/progress.ts';

interface UpOptions {
  readonly preset?: string;
  readonly port?: string;
}

const HELP = `
The data, the logs and the credentials are in LEASEHOLD_HOME (.leasehold unless set). With
DATABASE_URL set, that database is used and none is started.

There is no console yet: --no-console changes nothing.`;

/** `leasehold up`: everything on this machine, until Ctrl-C. */
export function addUp(cli: Cli, parent: Command): void {
  cli
    .leaf(parent, 'up', 'Start PostgreSQL, a controller and a drone here; Ctrl-C ends all of it')
    .addOption(new Option('--preset <name>', 'how long a key lasts').choices(['standard', 'fast']))
    .option('--port <n>', 'where the controller listens (4600)')
    .option('--no-console', 'leave out the console')
    .addHelpText('after', HELP)
    .action(async ({ preset, port }: UpOptions) => {
      const config = parseConfig({
        ...cli.context.environment,
        ...(preset === undefined ? {} : { LEASEHOLD_PRESET: preset }),
        ...(port === undefined ? {} : { LEASEHOLD_PORT: port }),
      });
      const progress = cli.isJson
        ? createSilentProgress(cli.context)
        : createProgress(cli.context, cli.style);
      progress.say(cli.style.strong('Leasehold'));
      // Loaded only here: it brings the database's client along.
      const { runUp } = await import('../up/run-up.ts');
      await runUp({
        cli,
        config,
        progress,
        onRunning: (run) => {
          cli.show(run, () => runningText(run, config.home));
        },
      });
    });
}

function runningText(run: RunFile, home: string): string {
  return `
Running. Credentials are in ${home}/credentials.json, logs in ${home}/logs.

In another shell, try:

  npx leasehold connect demo --program room
  npx leasehold keys ls

The API is at ${run.controllerUrl}/trpc. Ctrl-C ends everything.`;
}
