import { runFilePath, writePrivateJson, type RunFile } from '../../config/home.ts';
import { writeProcesses } from './leftovers.ts';

const RETRY_MS = 5_000;

/** Keeps `run.json`, and the list of processes that a later run ends, as they are. */
export interface RunRecord {
  /** Writes what runs now. */
  write(): void;
  /** As `write`; when it cannot be written, that is said, and tried again later. */
  update(): void;
  close(): void;
}

/** @param onProblem told why what runs could not be written down. */
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
