import { runFilePath, writePrivateJson, type RunFile } from '../../config/home.ts';
import { writeProcesses } from './leftovers.ts';

const RETRY_MS = 5_000;

/**
 * Keeps `run.json`, and the list of processes that a later run ends, up to date.
 * @param onProblem called with the reason why the record could not be written.
 */
export function keepRunRecord(
  home: string,
  run: () => RunFile,
  onProblem: (error: unknown) => void,
) {
  let retry: NodeJS.Timeout | undefined;

  /** Writes what runs now. */
  function write(): void {
    const now = run();
    writePrivateJson(runFilePath(home), now);
    writeProcesses(home, [now.pids.controller, now.pids.console, now.pids.agent]);
  }

  /** As `write`; a failure is reported, and the write is retried later. */
  function update(): void {
    clearTimeout(retry);
    try {
      write();
    } catch (error) {
      onProblem(error);
      retry = setTimeout(update, RETRY_MS);
      retry.unref();
    }
  }

  return {
    write,
    update,
    close() {
      clearTimeout(retry);
    },
  };
}
