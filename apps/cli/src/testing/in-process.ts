import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { LeaseError } from '@leasehold/keys-core';
import { onTestFinished } from 'vitest';
import type { CliContext } from '../cli.ts';
import { runCli } from '../program.ts';

/** The answer of a controller that hangs. */
export const NO_ANSWER = new Promise<never>(() => undefined);

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
    signalWhileRead: () => none,
    onSignal: () => undefined,
    wasAnswerLost: () => Promise.resolve(false),
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

type Answer = object | null;

/**
 * A controller that answers each call with what `next` makes, a `LeaseError` for a refusal; `asked` has the paths of
 * the calls.
 */
export async function controllerThatAnswers(next: (path: string) => Answer | Promise<Answer>) {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(request.url ?? '');
    asked.push(path);
    void Promise.resolve(next(path)).then((answer) => {
      const isRefusal = answer instanceof LeaseError;
      response.writeHead(isRefusal ? 400 : 200, { 'content-type': 'application/json' });
      response.end(JSON.stringify(isRefusal ? refusalOf(answer) : { result: { data: answer } }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const url = `http://127.0.0.1:${String(port)}`;
  return { asked, server, env: { LEASEHOLD_URL: url, LEASEHOLD_TOKEN: `lh_${'x'.repeat(43)}` } };
}

function refusalOf({
  code,
  message,
  details,
  retryable,
  incidentId = null,
}: LeaseError & { readonly incidentId?: string | null }): object {
  const data = { leaseholdCode: code, retryable, incidentId, details };
  return { error: { message, code: -32_600, data } };
}
