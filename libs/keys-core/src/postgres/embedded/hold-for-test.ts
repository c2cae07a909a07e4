import { LeaseError } from '../../kernel/errors.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';

/** Starts a server on the folder of the first argument, prints its process id, and keeps running. */
const [, , dataDir = ''] = process.argv;
try {
  const server = await startEmbeddedPostgres({
    dataDir,
    fsync: false,
    log: (line) => process.stdout.write(`${line}\n`),
  });
  process.stdout.write(`ready ${String(server.pid)}\n`);
  setInterval(() => undefined, 60_000);
} catch (error) {
  if (!(error instanceof LeaseError)) throw error;
  process.stdout.write(`${error.code} ${error.message}\n`);
  process.exitCode = 1;
}
