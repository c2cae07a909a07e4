import type { CliConfig } from '../config/config.ts';
import { readRunFile } from '../home.ts';
import { skipped, well, wrong, type Finding } from './finding.ts';

const ANSWER_TIMEOUT_MS = 5_000;

/** The console that browsers are sent to, and whether it reaches its controller. */
export async function examineConsole(config: CliConfig): Promise<Finding> {
  const running = config.urls === null ? readRunFile(config.home)?.consoleUrl : null;
  const url = config.consoleOrigin ?? running ?? null;
  if (url === null) {
    return skipped('console', 'none runs here, and LEASEHOLD_CONSOLE_ORIGIN names no other');
  }
  try {
    const page = await ask(`${url}/healthz`);
    if (!page.ok) {
      return wrong(
        'console',
        `${url} answers with ${String(page.status)}`,
        'Is this the address of a console? See its log.',
      );
    }
    const passed = await ask(`${url}/api/auth/sign-in-options`);
    return passed.ok
      ? well('console', `${url} answers, and reaches its controller`)
      : wrong(
          'console',
          `${url} answers, but cannot reach its controller (${String(passed.status)})`,
          'Check its LEASEHOLD_URL, and that the controller runs.',
        );
  } catch (error) {
    return wrong(
      'console',
      `${url} does not answer: ${causeOf(error)}`,
      'Is it running, and can this machine reach it? See its log.',
    );
  }
}

function ask(url: string): Promise<Response> {
  return fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
}

function causeOf(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message || cause.name : String(cause);
}
