import { LeaseError } from '../../kernel/errors.ts';
import { startEmbeddedPostgres } from './embedded-postgres.ts';

/**
 * Starts a server on the folder of the first argument, with the binaries of the second if there is one, prints where its
 * data is and its process id, and keeps running.
 */
const [, , dataDir = '', nativeDir] = process.argv;
try {
  const server = await startEmbeddedPostgres({
    dataDir,
    nativeDir,
    fsync: false,
    log: (line) => process.stdout.write(`${line}\n`),
  });
  const { dir, notice } = server;
  process.stdout.write(`runs ${JSON.stringify({ dir, notice })}\nready ${String(server.pid)}\n`);
  setInterval(() => undefined, 60_000);
} catch (error) {
  if (!(error instanceof LeaseError)) throw error;
  process.stdout.write(`${error.code} ${error.message}\n`);
  process.exitCode = 1;
}
