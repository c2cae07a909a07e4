/** How much of an error is logged: messages and stacks may hold what a caller sent, at any length. */
const MESSAGE_LENGTH_MAX = 2_000;
const STACK_LENGTH_MAX = 4_000;
const CAUSES_MAX = 4;

interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly code?: string;
  readonly stack?: string;
  readonly cause?: LoggedError;
}

/**
 * An error as it is logged: its type, code, message, stack and causes, and none of its other fields.
 * Errors of pg would bring their whole connection along, with the secret that cancels its statements.
 */
export function boundedError(error: unknown, causesLeft = CAUSES_MAX): LoggedError {
  if (!(error instanceof Error)) {
    return { type: typeof error, message: cut(String(error), MESSAGE_LENGTH_MAX) };
  }
  const { code } = error as { code?: unknown };
  return {
    type: error.name,
    message: cut(error.message, MESSAGE_LENGTH_MAX),
    ...(typeof code === 'string' ? { code } : {}),
    ...(error.stack === undefined ? {} : { stack: cut(error.stack, STACK_LENGTH_MAX) }),
    ...(error.cause instanceof Error && causesLeft > 0
      ? { cause: boundedError(error.cause, causesLeft - 1) }
      : {}),
  };
}

function cut(text: string, lengthMax: number): string {
  return text.length > lengthMax ? `${text.slice(0, lengthMax)}…` : text;
}
