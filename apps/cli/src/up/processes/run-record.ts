import { runFilePath, writePrivateJson, type RunFile } from '../../config/home.ts';
import { writeProcesses } from './leftovers.ts';

const RETRY_MS = 5_000;

/** Keeps `run.json`, and the list of processes that a later run ends, up to date. */
export interface RunRecord {
  /** Writes what runs now. */
  write(): void;
  /** As `write`; a failure is reported, and the write is retried later. */
  update(): void;
  close(): void;
}

/** @param onProblem called with the reason why the record could not be written. */
export function keepRunRecord(
  home: string,
  run: () => RunFile,
  onProblem: (error: unknown) => void,
): RunRecord {
  let retry: NodeJS.Timeout | undefined;

  function write(): void {
    const now = run();
    writePrivateJson(runFilePath(home), now);
    writeProcesses(home, [now.pids.controller, now.pids.console, now.pids.agent]);
  }

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
