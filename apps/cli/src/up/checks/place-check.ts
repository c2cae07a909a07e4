import { accessSync, constants } from 'node:fs';
import type { CliConfig } from '../../config/config.ts';
import { EXIT_CODES } from '../../failures/exit-codes.ts';
import { CliFailure } from '../../failures/failure.ts';
import { tryToListen } from './port-check.ts';

/** The ports of the controller and the console: they stay the same when these are started again. */
export interface Place {
  readonly port: number;
  readonly consolePort: number;
}

const ANOTHER_PORT = '--port N (or LEASEHOLD_PORT)';
const ANOTHER_CONSOLE_PORT = '--console-port N (or LEASEHOLD_CONSOLE_PORT)';
/** How often to look for a free port other than the controller's. */
const FREE_PORT_TRIES_MAX = 10;

/**
 * Checks everything on this machine that could keep the parts from starting.
 * @returns the ports that were asked for, or a free one for each 0.
 * @throws {CliFailure} `up.cannot_start` with every problem at once; nothing was started.
 */
export async function checkPlace(
  config: CliConfig,
  { withConsole }: { withConsole: boolean },
): Promise<Place> {
  const { host } = config;
  const own = await tryToListen(host, config.port, ANOTHER_PORT);
  const consoles = withConsole
    ? await tryConsolePort(config, own.port)
    : { port: config.consolePort };
  const problems = [homeProblem(config.home), own.problem, consoles.problem].filter(
    (problem) => problem !== undefined,
  );
  if (problems.length === 0) return { port: own.port, consolePort: consoles.port };
  throw new CliFailure(`Nothing was started:${problems.map((text) => `\n  ${text}`).join('')}`, {
    code: 'up.cannot_start',
    exitCode: EXIT_CODES.refused,
    details: { problems },
  });
}

async function tryConsolePort(
  { host, consolePort }: CliConfig,
  taken: number,
): Promise<{ port: number; problem?: string }> {
  for (let left = FREE_PORT_TRIES_MAX; left > 0; left -= 1) {
    const listened = await tryToListen(host, consolePort, ANOTHER_CONSOLE_PORT);
    if (listened.port !== taken) return listened;
    if (consolePort !== 0) break;
  }
  return {
    port: consolePort,
    problem:
      `port ${String(taken)} cannot be the controller's and the console's: ` +
      `choose another one with ${ANOTHER_CONSOLE_PORT}`,
  };
}

function homeProblem(home: string): string | undefined {
  try {
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
    return undefined;
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return `the directory ${home} cannot be used (${cause}): set LEASEHOLD_HOME to another one`;
  }
}
