import { CommanderError } from 'commander';
import { createCli, type Cli } from './cli.ts';
import type { CliContext } from './context.ts';
import { EXIT_CODES } from './failures/exit-codes.ts';
import { failureOf } from './failures/failure-of.ts';
import type { CliFailure } from './failures/failure.ts';
import { createProgram } from './program.ts';

/**
 * Runs one command line: arguments without the program's own name.
 * @returns its exit code; undefined when the process has become another program, which sets it.
 */
export async function runCli(
  args: readonly string[],
  context: CliContext,
): Promise<number | undefined> {
  const cli = createCli(context, asksForJson(args));
  try {
    const program = createProgram(cli);
    if (args.length === 0) {
      program.outputHelp();
      return EXIT_CODES.usage;
    }
    await program.parseAsync([...args], { from: 'user' });
    return cli.exitCode;
  } catch (error) {
    if (isHelp(error)) return EXIT_CODES.done;
    const failure = failureOf(error, cli.controllerUrls());
    context.stderr(`${cli.isJson ? failureJson(failure) : failureText(failure, cli)}\n`);
    return failure.exitCode;
  } finally {
    cli.close();
  }
}

/** Known before anything is parsed, so that an error in the parsing is JSON too. */
function asksForJson(args: readonly string[]): boolean {
  const end = args.indexOf('--');
  return (end === -1 ? args : args.slice(0, end)).includes('--json');
}

function isHelp(error: unknown): boolean {
  return error instanceof CommanderError && error.exitCode === 0;
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
