import { shownUrl } from '@leasehold/service-kit';
import { Option, type Command } from 'commander';
import { HERE, refuseContext } from '../apps.ts';
import type { Cli } from '../cli.ts';
import { parseConfig } from '../config.ts';
import { findTarget } from '../contexts.ts';
import type { RunFile } from '../home.ts';
import { appendText, portOf, wholeNumberOf } from '../options.ts';
import type { Style } from '../output/text.ts';
import type { UpOptions } from '../up/up-request.ts';

const HELP = `
A command is split into words as a shell does, runs in the folder where up was called, and finds its port
in PORT. No shell runs it: sh -c '…' does. Programs of --program are kept for later runs until
--forget-program. leasehold.config.json in this folder gives programs and options for all who work in it;
options win over it, and it wins over what is kept.

The data, the logs and the credentials are in LEASEHOLD_HOME (.leasehold unless set). With
DATABASE_URL set, that database is used and none is started.

Examples:
  leasehold up
  leasehold up --program echo='node echo.mjs' --watch
  leasehold up --program api='python3 app.py' --env MODE=dev --cwd services/api`;

/** `leasehold up`: everything on this machine, until Ctrl-C. */
export function addUp(cli: Cli, parent: Command): void {
  const command = cli.leaf(
    parent,
    'up',
    'Start PostgreSQL, a controller, the console, a gateway and a drone here; Ctrl-C ends it',
    HERE,
  );
  withPrograms(withPlaces(command))
    .addHelpText('after', HELP)
    .action(async (options: UpOptions) => {
      refuseContext(cli);
      const { environment } = cli.context;
      const { readUpRequest } = await import('../up/up-request.ts');
      const request = readUpRequest(options, { folder: process.cwd(), environment });
      const config = parseConfig(request.environment);
      const { createProgress, createSilentProgress } = await import('../up/progress.ts');
      const progress = cli.isJson
        ? createSilentProgress(cli.context)
        : createProgress(cli.context, cli.style);
      progress.say(cli.style.strong('Leasehold'));
      // Loaded only here, because it loads the database client too.
      const { runUp } = await import('../up/run-up.ts');
      await runUp({
        cli,
        config,
        request,
        progress,
        onRunning: (run, signIn) =>
          cli.show({ ...run, databaseUrl: shownUrl(run.databaseUrl) }, () =>
            runningText({
              run,
              signIn,
              home: config.home,
              style: cli.style,
              at: isElsewhere(cli) ? ' --context local' : '',
            }),
          ),
      });
    });
}

function withPlaces(command: Command): Command {
  return command
    .addOption(new Option('--preset <name>', 'the ladder of keys').choices(['standard', 'fast']))
    .option('--port <n>', 'where the controller listens (4600)', portOf('--port'))
    .option(
      '--console-port <n>',
      'where the console listens (one above the controller)',
      portOf('--console-port'),
    )
    .option('--console', 'start the console (unless the file says otherwise)')
    .option('--no-console', 'do not start the console')
    .option(
      '--gateway-port <n>',
      'where the gateway listens (two above the controller)',
      portOf('--gateway-port'),
    )
    .option('--gateway', 'start the gateway (unless the file says otherwise)')
    .option('--no-gateway', 'do not start the gateway')
    .option('--config <file>', 'in place of leasehold.config.json in this folder');
}

function withPrograms(command: Command): Command {
  return command
    .option('--program <name=command>', 'offer a program of your own; may be repeated', collect)
    .option('--cwd <folder>', 'where each --program runs (this folder)')
    .option('--env <name=value>', 'a variable of each --program; may be repeated', collect)
    .option('--port-env <name>', 'the variable with the port of each --program, besides PORT')
    .option(
      '--warm <n>',
      'processes of each --program that run before a key is known',
      wholeNumberOf('--warm'),
    )
    .option('--forget-program <name>', 'keep a program no longer; may be repeated', collect)
    .option('--drone-config <file>', "a drone's config file, used as it is, in place of programs")
    .option('--watch', 'stop the backends of a program when its script changes')
    .option('--watch-path <path>', 'watch this file or folder instead; may be repeated', collect)
    .option('--no-watch', 'watch nothing (unless the file says otherwise)');
}

function collect(text: string, before: readonly string[] | undefined): string[] {
  return appendText(text, before ?? []);
}

interface Running {
  readonly run: RunFile;
  readonly signIn: { readonly email: string; readonly password: string } | undefined;
  readonly home: string;
  readonly style: Style;
  /** What commands need to find this. */
  readonly at: string;
}

/** Whether commands go to other controllers, unless they are told otherwise. */
function isElsewhere(cli: Cli): boolean {
  try {
    return findTarget(cli.config(), cli.environment).urls !== null;
  } catch {
    return true;
  }
}

function runningText({ run, signIn, home, style, at }: Running): string {
  const { consoleUrl, controllerUrl, gatewayUrl, programs } = run;
  const [first] = programs;
  return `${consoleUrl === null ? '' : `\n${signInText(consoleUrl, { signIn, style })}\n`}
Running. Credentials are in ${home}/credentials.json, logs in ${home}/logs.

In another shell, try:

  npx leasehold${at} connect demo --program ${first?.name ?? 'NAME'}
${gatewayUrl === null ? '' : `  npx leasehold${at} open demo\n`}  npx leasehold${at} keys ls

Clients and commands elsewhere use LEASEHOLD_URL=${controllerUrl}
Ctrl-C ends everything.`;
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
