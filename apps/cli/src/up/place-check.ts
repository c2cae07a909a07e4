import { accessSync, constants } from 'node:fs';
import type { CliConfig } from '../config.ts';
import { EXIT_CODES } from '../exit-codes.ts';
import { CliFailure } from '../failure.ts';
import { tryToListen } from './port-check.ts';

/**
 * Looks at everything of this machine that could keep the parts from starting.
 * @returns the port to listen on: the one that was asked for, or a free one for 0. It stays the same
 * when the controller is started again.
 * @throws {CliFailure} `up.cannot_start` with every problem at once; nothing was started.
 */
export async function checkPlace(config: CliConfig): Promise<{ port: number }> {
  const listened = await tryToListen(config.host, config.port);
  const problems = [homeProblem(config.home), listened.problem].filter(
    (problem) => problem !== undefined,
  );
  if (problems.length === 0) return { port: listened.port };
  throw new CliFailure(`Nothing was started:${problems.map((text) => `\n  ${text}`).join('')}`, {
    code: 'up.cannot_start',
    exitCode: EXIT_CODES.refused,
    details: { problems },
  });
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
