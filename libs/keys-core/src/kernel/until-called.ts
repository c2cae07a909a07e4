/**
 * Waits for a call, or until the signal aborts. `begin` is given what is to be called, and returns how to
 * end its part; it does not call at once.
 */
export function untilCalled(
  begin: (finish: () => void) => () => unknown,
  signal?: AbortSignal,
): Promise<void> {
  return new Promise((resolve) => {
    const finish = (): void => {
      end();
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const end = begin(finish);
    if (signal?.aborted === true) finish();
    else signal?.addEventListener('abort', finish);
  });
}
