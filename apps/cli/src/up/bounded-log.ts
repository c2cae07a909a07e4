import { closeSync, fstatSync, openSync, renameSync, writeFileSync } from 'node:fs';

/** The size at which a log is set aside, and a new one begun: two of them are kept per process. */
const LOG_BYTES_MAX = 8 * 1_024 * 1_024;

/** An append-only log file of a bounded size. */
export type BoundedLog = ReturnType<typeof openBoundedLog>;

/**
 * Opens `path` for appending. When it grows beyond its bound it becomes `<path>.1`, replacing the
 * one before. A log that cannot be written, on a full disk for example, loses lines and stops
 * nothing: the process that it belongs to is more important.
 */
export function openBoundedLog(path: string, bytesMax: number = LOG_BYTES_MAX) {
  let file = openSync(path, 'a', 0o600);
  let bytes = fstatSync(file).size;

  function rotate(): void {
    renameSync(path, `${path}.1`);
    const next = openSync(path, 'a', 0o600);
    closeSync(file);
    file = next;
    bytes = 0;
  }

  return {
    write(chunk: Buffer) {
      try {
        if (bytes + chunk.byteLength > bytesMax && bytes > 0) rotate();
        writeFileSync(file, chunk);
        bytes += chunk.byteLength;
      } catch {
        // Lost lines are the lesser harm; see above.
      }
    },
    close() {
      closeSync(file);
    },
  };
}
