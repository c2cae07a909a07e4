import { join } from 'node:path';
import { supervisePostgres } from '@leasehold/keys-core/postgres';
import { withSchema } from '@leasehold/service-kit';
import type { RunningHooks, Supervision } from '@leasehold/service-kit/supervision';
import type { CliConfig } from '../config/config.ts';
import { openBoundedLog } from './bounded-log.ts';

const DATABASE_NAME = 'leasehold';

/** The database of `leasehold up`. */
export interface Database {
  readonly url: string;
  /** null: it was not started here. */
  readonly pid: number | null;
  /** What people should know about its start. */
  readonly note?: string;
  /** Fulfilled when it runs, as far as is known here, or the signal aborts. */
  untilUp(signal: AbortSignal): Promise<void>;
  stop(): Promise<void>;
}

/** The database that DATABASE_URL names: it is neither started nor stopped here. */
export function externalDatabase(url: string): Database {
  return { url, pid: null, untilUp: () => Promise.resolve(), stop: () => Promise.resolve() };
}

/**
 * Starts PostgreSQL on the data in the home and keeps it running.
 * @throws {LeaseError} see {@link supervisePostgres}.
 */
export async function startDatabase(
  config: CliConfig,
  hooks: RunningHooks,
  supervision: Supervision,
): Promise<Database> {
  const log = openBoundedLog(join(config.home, 'logs', 'postgres.log'));
  try {
    const postgres = await supervisePostgres({
      dataDir: join(config.home, 'postgres'),
      log: (line) => log.write(Buffer.from(`${line}\n`)),
      ...{ hooks, supervision },
    });
    return {
      url: withSchema(postgres.url(DATABASE_NAME), config.schema),
      ...(postgres.lostPort === undefined ? {} : { note: movedText(postgres) }),
      get pid() {
        return postgres.pid;
      },
      untilUp: (signal) => postgres.untilUp(signal),
      async stop() {
        await postgres.stop();
        log.close();
      },
    };
  } catch (error) {
    log.close();
    throw error;
  }
}

function movedText({ port, lostPort }: { port: number; lostPort: number | undefined }): string {
  return (
    `another program uses port ${String(lostPort)}, which PostgreSQL had: it has ${String(port)} from now on; ` +
    '`leasehold config print --database-url` prints its address'
  );
}
