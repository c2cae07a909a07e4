import { setTimeout as delay } from 'node:timers/promises';
import addCompletion from '@bomb.sh/tab/commander';
import { Command, CommanderError } from 'commander';
import packageJson from '../package.json' with { type: 'json' };
import { addConsole, addController, addDrone } from './apps.ts';
import { type Cli, type CliContext, createCli } from './cli.ts';
import { addAdmin, addMigrate, addTokens } from './commands/admin.ts';
import { addBackends } from './commands/backends.ts';
import { addConfig, addContext } from './commands/context.ts';
import { addDrones } from './commands/drones.ts';
import { addAudit, addEvents, addRefusals } from './commands/events.ts';
import { addFind } from './commands/operations.ts';
import { addGateway } from './commands/backends.ts';
import { addConnect, addKeys, addOpen } from './commands/keys.ts';
import { addEnvironments, addLeases } from './commands/leases.ts';
import { addDatacenters, addDoctor, addHoldOff, addWebhook } from './commands/operations.ts';
import { addReservations } from './commands/reservations.ts';
import { addUp } from './commands/up.ts';
import {
  type CliFailure,
  EXIT_CODES,
  EXIT_CODES_HELP,
  failureOf,
  isPassing,
  usageFailure,
} from './failures.ts';
import { withListing } from './options.ts';

/** How often a list that is watched is read. */
const WATCH_MS = 1_000;

/**
 * Runs one command line: arguments without the program's own name.
 * @returns its exit code; undefined when the process has become another program, which sets it.
 */
export async function runCli(
  args: readonly string[],
  context: CliContext,
): Promise<number | undefined> {
  const cli = createCli(context, args, asksForJson(args));
  let program = createProgram(cli);
  try {
    await program.parseAsync([...args], { from: 'user' });
    let isMissed = false;
    while (cli.listing.isWatched) {
      const signal = context.signalWhileRead();
      await delay(WATCH_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
      // Each time the whole command, as if it were typed again.
      program = createProgram(cli);
      const round = program.parseAsync([...args], { from: 'user' }).then(
        () => {
          isMissed = false;
        },
        (error: unknown) => {
          if (!isPassing(error)) throw error;
          if (!isMissed && !signal.aborted) {
            cli.note(`${failureOf(error, cli.asked()).message} Trying again.`);
          }
          isMissed = true;
        },
      );
      // A controller that hangs would keep it for as long as a call may take.
      if (await waitUnlessAborted(round, signal)) break;
    }
    return cli.exitCode;
  } catch (error) {
    if (isHelp(error)) return EXIT_CODES.done;
    if (isGroupAlone(error) && !cli.isJson) {
      groupIn(program, args).configureOutput({ writeErr: context.stderr }).outputHelp(AS_ERROR);
      return EXIT_CODES.usage;
    }
    const failure = isGroupAlone(error)
      ? incomplete(groupIn(program, args))
      : (ofOwnOption(error, program, args) ?? failureOf(error, cli.asked()));
    const text = cli.isJson
      ? failureJson(failure)
      : failureText(failure, cli).replaceAll('`leasehold ', `\`${cli.called} `);
    context.stderr(`${text}\n`);
    return failure.exitCode;
  } finally {
    cli.close();
  }
}

/** Waits for the work, but not past the signal. @returns whether that has aborted. @throws what the work throws. */
async function waitUnlessAborted(work: Promise<void>, signal: AbortSignal): Promise<boolean> {
  const over = new AbortController();
  const left = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { signal: over.signal });
  });
  try {
    await Promise.race([work, left]);
    return signal.aborted;
  } finally {
    over.abort();
  }
}

/** Known before anything is parsed, so that an error in the parsing is JSON too. */
function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  const options = end === -1 ? args : args.slice(0, end);
  // `-w` takes no value: in `-wo json` and `-wojson` the rest is `-o`.
  const isOutput = options.some(
    (word, at) => /^(?:-w*o|--output)$/u.test(word) && options[at + 1] === 'json',
  );
  return isOutput || options.some((word) => /^(?:--json|-w*ojson|--output=json)$/u.test(word));
}

function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.exitCode === 0;
}

const AS_ERROR = { error: true };

/** Whether a group was called without one of its commands. */
function isGroupAlone(error: unknown): boolean {
  return error instanceof CommanderError && error.code === 'commander.help';
}

/** The group that a command line names. */
function groupIn(program: Command, args: readonly string[]): Command {
  let group = program;
  for (const word of args) group = group.commands.find((one) => one.name() === word) ?? group;
  return group;
}

/** The failure of an option that may be of the command that is to be run; undefined for other errors. */
function ofOwnOption(
  error: unknown,
  program: Command,
  args: readonly string[],
): CliFailure | undefined {
  if (!(error instanceof CommanderError) || error.code !== 'commander.unknownOption') {
    return undefined;
  }
  const command = groupIn(program, args);
  const runs = command.registeredArguments.some((one) => one.variadic && one.name() === 'command');
  if (!runs || args.includes('--')) return undefined;
  return usageFailure(
    failureOf(error).message,
    'Put `--` before the command that is to be run: what follows it are its own options, as in `-- sh -c …`.',
  );
}

function incomplete(group: Command): CliFailure {
  const shown = group.createHelp().visibleCommands(group);
  const names = shown.map((command) => command.name()).filter((name) => name !== 'help');
  return usageFailure(`A command is missing: one of ${names.join(', ')}.`);
}

function failureJson(failure: CliFailure): string {
  const { code, message, hint, retryable, details, incidentId } = failure;
  return JSON.stringify({ error: { code, message, hint, retryable, details, incidentId } });
}

function failureText(failure: CliFailure, cli: Cli): string {
  const lines = [cli.style.bad(failure.message)];
  if (failure.hint !== undefined) lines.push(failure.hint);
  // A refusal says everything itself; the cause of a defect is in the log, under this id.
  if (failure.code === 'internal.error' && failure.incidentId !== undefined) {
    lines.push(`Incident ${failure.incidentId}.`);
  }
  return lines.join('\n');
}

/** First the commands that stand by themselves, then groups of commands, by what they are about. */
const COMMANDS: readonly ((cli: Cli, program: Command) => void)[] = [
  addUp,
  addConnect,
  addOpen,
  addFind,
  addDoctor,
  addController,
  addConsole,
  addDrone,
  addMigrate,
  addKeys,
  addLeases,
  addEnvironments,
  addReservations,
  addDatacenters,
  addBackends,
  addDrones,
  addHoldOff,
  addGateway,
  addAdmin,
  addTokens,
  addEvents,
  addRefusals,
  addAudit,
  addWebhook,
  addContext,
  addConfig,
];

const HELP = `
Commands talk to the context that --context or LEASEHOLD_CONTEXT names; else to LEASEHOLD_URL, with
LEASEHOLD_TOKEN; else to the context that \`leasehold context use\` has chosen; else to what
\`leasehold up\` runs in LEASEHOLD_HOME (.leasehold unless set), as its administrator. That is also the
context "local". LEASEHOLD_URL may name several controllers of one database, separated by commas: one
that does not answer is skipped.

${EXIT_CODES_HELP}`;

/** The commands that print a list. */
function listsIn(command: Command): Command[] {
  if (command.commands.length > 0) return command.commands.flatMap(listsIn);
  const isPaged = command.options.some(({ long }) => long === '--limit');
  const isOther = ['ls', 'tree', 'why'].includes(command.name());
  return (isPaged || isOther) && command.name() !== 'create' ? [command] : [];
}

/** What is about the whole command line, with the options of the program itself. */
const ABOUT_ALL: ReadonlySet<string | undefined> = new Set([
  undefined,
  'help',
  'completion',
  'complete',
]);

/**
 * Whether no command is named. Only then is `--version` the program's: it would be taken from the options of a command,
 * and of what a command runs, which would then not run.
 */
function isOfProgram(args: readonly string[]): boolean {
  const word = args.find((arg, at) => !arg.startsWith('-') && args[at - 1] !== '--context');
  return ABOUT_ALL.has(word);
}

/** The whole command line. Nothing in it but `completion` prints or exits by itself. */
export function createProgram(cli: Cli): Command {
  const program = new Command('leasehold')
    .description('Who holds a key right now, and until when')
    .option('--json', 'print answers as JSON, errors too')
    .option('--context <name>', 'the context to use, whatever is set')
    .showSuggestionAfterError()
    .addHelpText('after', HELP);
  if (isOfProgram(cli.args)) program.version(packageJson.version);
  // Subcommands inherit these settings, if they are made before the subcommands.
  program.exitOverride().configureOutput({
    writeOut: cli.context.stdout,
    // Errors are printed once, by the code that runs the program.
    writeErr: () => undefined,
  });
  program.hook('preAction', () => {
    const { context: named } = program.opts<{ context?: string }>();
    if (named === '') throw usageFailure('--context must name a context.');
    if (named !== undefined) {
      cli.environment = { ...cli.context.environment, LEASEHOLD_CONTEXT: named };
    }
  });
  for (const add of COMMANDS) add(cli, program);
  for (const list of program.commands.flatMap(listsIn)) {
    withListing(list, (output = cli.isJson ? 'json' : 'table', isWatched) => {
      if (cli.isJson && output !== 'json') {
        throw usageFailure(`--json and --output ${output} exclude each other.`);
      }
      cli.listing = { format: output === 'json' ? 'table' : output, isWatched };
    });
  }
  // It reads the commands above, and prints by itself.
  addCompletion(program, { completionCommandName: 'completion' });
  return program;
}
