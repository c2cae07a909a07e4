import { setTimeout as delay } from 'node:timers/promises';
import { CommanderError, type Command } from 'commander';
import { createCli, type Cli } from './cli.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './failures/exit-codes.ts';
import { failureOf } from './failures/failure-of.ts';
import { usageFailure, type CliFailure } from './failures/failure.ts';
import { createProgram } from './program.ts';

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
  const cli = createCli(context, asksForJson(args));
  let program = createProgram(cli);
  try {
    await program.parseAsync([...args], { from: 'user' });
    while (cli.listing.isWatched && !context.signal().aborted) {
      await delay(WATCH_MS, undefined, { signal: context.signal() }).catch(() => undefined);
      if (context.signal().aborted) break;
      // Each time the whole command, as if it were typed again.
      program = createProgram(cli);
      await program.parseAsync([...args], { from: 'user' });
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
      : failureOf(error, cli.asked());
    context.stderr(`${cli.isJson ? failureJson(failure) : failureText(failure, cli)}\n`);
    return failure.exitCode;
  } finally {
    cli.close();
  }
}

/** Known before anything is parsed, so that an error in the parsing is JSON too. */
function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  const options = end === -1 ? args : args.slice(0, end);
  const isOutput = options.some(
    (word, at) => ['-o', '--output'].includes(word) && options[at + 1] === 'json',
  );
  return isOutput || ['--json', '-ojson', '--output=json'].some((word) => options.includes(word));
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
