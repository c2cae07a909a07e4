import { accessSync, constants, existsSync } from 'node:fs';
import type { CliConfig } from '../config/config.ts';
import { readRunFile, runFilePath, runningUpOf } from '../home.ts';
import { skipped, unsure, well, wrong, type Finding } from './finding.ts';

/** The home directory, and whether something runs from it. */
export function examineHome(config: CliConfig): Finding {
  const { home } = config;
  if (!existsSync(home)) {
    return config.urls === null
      ? wrong(
          'home',
          `${home} does not exist`,
          'Start everything here with `leasehold up`, or set LEASEHOLD_URL.',
        )
      : skipped('home', `${home} does not exist, and LEASEHOLD_URL is set`);
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
      `${runFilePath(home)} exists, but leasehold up was killed`,
      'Start it again: it ends leftover processes, and keeps the data.',
    );
  }
  return skipped('home', `${home}: leasehold up does not run`);
}
