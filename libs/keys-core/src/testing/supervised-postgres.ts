import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { SupervisedPostgresOptions } from '../postgres/embedded/embedded-postgres.ts';

const HOUR_MS = 3_600_000;

/** How a PostgreSQL is supervised in a test, and what is told of it. */
interface Supervising extends SupervisedPostgresOptions {
  readonly gaveUp: unknown[];
  /** Fulfilled when the first pause is over, and the next start begins. */
  readonly restarted: Promise<void>;
}

/** Time passes only in pauses, each of which lasts an hour. */
export function supervising(dataDir: string): Supervising {
  let nowMs = 0;
  const gaveUp: unknown[] = [];
  let restart = (): void => undefined;
  const restarted = new Promise<void>((resolve) => (restart = resolve));
  return {
    dataDir,
    log: () => undefined,
    gaveUp,
    restarted,
    hooks: {
      restarting: () => undefined,
      restarted: () => undefined,
      gaveUp: (_name, death) => gaveUp.push(death),
    },
    supervision: {
      random: () => 0,
      stop: new AbortController().signal,
      time: {
        nowMs: () => nowMs,
        pause() {
          nowMs += HOUR_MS;
          restart();
          return Promise.resolve();
        },
      },
    },
  };
}

/** As {@link supervising}, in a folder of the test's own. */
export async function supervisingNew(): Promise<Supervising> {
  const folder = await mkdtemp(join(tmpdir(), 'leasehold-supervised-'));
  onTestFinished(() => rm(folder, { recursive: true, maxRetries: 10 }));
  return supervising(join(folder, 'postgres'));
}
