import { runCli } from '../run-cli.ts';

/** Runs a command line in this process, for what needs no controller. */
export async function runHere(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<{ exitCode: number | undefined; stdout: string; stderr: string }> {
  let stdout = '';
  let stderr = '';
  const none = new AbortController().signal;
  const exitCode = await runCli(args, {
    stdout: (text) => {
      stdout += text;
    },
    stderr: (text) => {
      stderr += text;
    },
    readStdin: () => Promise.resolve(''),
    environment: { LEASEHOLD_HOME: '/nowhere', ...environment },
    isTerminal: false,
    signal: () => none,
    onSignal: () => undefined,
  });
  return { exitCode, stdout, stderr };
}
