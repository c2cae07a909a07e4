import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import { parseConfig } from '../config/config.ts';
import type { RunFile } from '../config/home.ts';
import type { Style } from '../output/style.ts';
import { createProgress, createSilentProgress } from '../up/progress.ts';

interface UpOptions {
  readonly preset?: string;
  readonly port?: string;
  readonly console: boolean;
  readonly consolePort?: string;
}

const HELP = `
The data, the logs and the credentials are in LEASEHOLD_HOME (.leasehold unless set). With
DATABASE_URL set, that database is used and none is started.`;

/** `leasehold up`: everything on this machine, until Ctrl-C. */
export function addUp(cli: Cli, parent: Command): void {
  cli
    .leaf(
      parent,
      'up',
      'Start PostgreSQL, a controller, the console and a drone here; Ctrl-C ends it',
    )
    .addOption(new Option('--preset <name>', 'the ladder of keys').choices(['standard', 'fast']))
    .option('--port <n>', 'where the controller listens (4600)')
    .option('--console-port <n>', 'where the console listens (one above the controller)')
    .option('--no-console', 'do not start the console')
    .addHelpText('after', HELP)
    .action(async ({ preset, port, consolePort, console: withConsole }: UpOptions) => {
      const config = parseConfig({
        ...cli.context.environment,
        ...(preset === undefined ? {} : { LEASEHOLD_PRESET: preset }),
        ...(port === undefined ? {} : { LEASEHOLD_PORT: port }),
        ...(consolePort === undefined ? {} : { LEASEHOLD_CONSOLE_PORT: consolePort }),
      });
      const progress = cli.isJson
        ? createSilentProgress(cli.context)
        : createProgress(cli.context, cli.style);
      progress.say(cli.style.strong('Leasehold'));
      // Loaded only here, because it loads the database client too.
      const { runUp } = await import('../up/run-up.ts');
      await runUp({
        cli,
        config,
        withConsole,
        progress,
        onRunning: (run, signIn) =>
          cli.show(run, () => runningText({ run, signIn, home: config.home, style: cli.style })),
      });
    });
}

interface Running {
  readonly run: RunFile;
  readonly signIn: { readonly email: string; readonly password: string } | undefined;
  readonly home: string;
  readonly style: Style;
}

function runningText({ run, signIn, home, style }: Running): string {
  const { consoleUrl, controllerUrl } = run;
  return `${consoleUrl === null ? '' : `\n${signInText(consoleUrl, { signIn, style })}\n`}
Running. Credentials are in ${home}/credentials.json, logs in ${home}/logs.

In another shell, try:

  npx leasehold connect demo --program room
  npx leasehold keys ls

The API is at ${controllerUrl}/trpc. Ctrl-C ends everything.`;
}

function signInText(
  consoleUrl: string,
  { signIn, style }: Pick<Running, 'signIn' | 'style'>,
): string {
  const where = style.strong(consoleUrl);
  if (signIn === undefined) {
    return (
      `The console is at ${where}: sign in as before. If nobody can sign in any more,\n` +
      '`npx leasehold admin create --email you@example.com` makes an administrator.'
    );
  }
  return (
    `The console is at ${where}: sign in as ${style.strong(signIn.email)}\n` +
    `with the password ${style.strong(signIn.password)}`
  );
}
