import { accessSync, constants, existsSync } from 'node:fs';
import type { CliConfig } from '../config.ts';
import { readRunFile, runFilePath } from '../home.ts';
import { runningUpOf } from '../up/home-lock.ts';
import { skipped, unsure, well, wrong, type Finding } from './finding.ts';

/** The home directory, and whether something runs from it. */
export function examineHome(config: CliConfig): Finding {
  const { home } = config;
  if (!existsSync(home)) {
    return config.urls === null
      ? wrong(
          'home',
          `${home} is not there`,
          'Start everything here with `npm start`, or set LEASEHOLD_URL.',
        )
      : skipped('home', `${home} is not there, and LEASEHOLD_URL says where to go`);
  }
  try {
    accessSync(home, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch {
    return wrong(
      'home',
      `${home} may not be used by this user`,
      'Use the user who started `leasehold up`.',
    );
  }
  const up = runningUpOf(home);
  if (up !== undefined) {
    return readRunFile(home) === undefined
      ? unsure(
          'home',
          `${home}: leasehold up is starting, as process ${String(up.pid)}`,
          'Wait a moment.',
        )
      : well('home', `${home}: leasehold up runs as process ${String(up.pid)}`);
  }
  if (readRunFile(home) !== undefined) {
    return wrong(
      'home',
      `${runFilePath(home)} is there, but leasehold up was killed`,
      'Start it again: it ends what was left behind, and goes on with the same data.',
    );
  }
  return skipped('home', `${home}: leasehold up does not run`);
}
