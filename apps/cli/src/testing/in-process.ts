import type { CliContext } from '../cli.ts';
import { runCli } from '../program.ts';

/** What a command line prints goes to `printed`. */
export function contextOf(
  environment: Readonly<Record<string, string>>,
  input = '',
): {
  readonly context: CliContext;
  readonly printed: { stdout: string; stderr: string };
} {
  const printed = { stdout: '', stderr: '' };
  const none = new AbortController().signal;
  const context: CliContext = {
    stdout: (text) => {
      printed.stdout += text;
    },
    stderr: (text) => {
      printed.stderr += text;
    },
    readStdin: () => Promise.resolve(input),
    askSecret: () => Promise.resolve(undefined),
    environment: { LEASEHOLD_HOME: '/nowhere', ...environment },
    isTerminal: false,
    signal: () => none,
    onSignal: () => undefined,
  };
  return { context, printed };
}

/** Runs a command line in this process, for what needs no controller. */
export async function runHere(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
  input = '',
): Promise<{ exitCode: number | undefined; stdout: string; stderr: string }> {
  const { context, printed } = contextOf(environment, input);
  const exitCode = await runCli(args, context);
  return { exitCode, ...printed };
}
