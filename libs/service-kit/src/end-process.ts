const FAILED = 1;

/**
 * Ends this process when its program has: with the code that it gives, or, when it throws, with the
 * problem on the standard error and the code 1. Nothing that is still open keeps the process: what
 * could not start may have left connections, servers and children, and a supervisor waits for its end.
 *
 * A program that gives no code ends the process itself.
 */
export async function endProcessAfter(program: Promise<number | undefined>): Promise<void> {
  let exitCode: number | undefined;
  try {
    exitCode = await program;
  } catch (error) {
    process.stderr.write(`${problemText(error)}\n`);
    exitCode = FAILED;
  }
  if (exitCode !== undefined) process.exit(exitCode);
}

/** Who started it by hand or from a unit gets plain words for what has a code, and the stack of anything else. */
function problemText(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.name === 'LeaseError' ? error.message : (error.stack ?? error.message);
}
