/** Whether a process has been seen to be gone. */
export type IsGone = (process: { readonly pid: number; isGone(): boolean }) => boolean;

/** How often looks that fail are told of: there are many in each second. */
const PROBLEM_MS = 10_000;

/**
 * A look that fails, because there is no descriptor or no memory, has not seen that anything is gone. It must keep no
 * backend from its deadlines: not this one, which is killed at them all the same, and no other.
 */
export function tolerantLook({
  nowMs,
  onProblem,
}: {
  readonly nowMs: () => number;
  readonly onProblem: (problem: string) => void;
}): IsGone {
  let tellAtMs = Number.NEGATIVE_INFINITY;
  return (process) => {
    try {
      return process.isGone();
    } catch (error) {
      if (nowMs() >= tellAtMs) {
        tellAtMs = nowMs() + PROBLEM_MS;
        onProblem(
          `what is left of process ${String(process.pid)} cannot be seen: ${String(error)}`,
        );
      }
      return false;
    }
  };
}
