import { ERROR_CODES, type ErrorCode } from './error-codes.ts';
import { LIMITS } from './limits.ts';

export { ERROR_CODES, type ErrorCode } from './error-codes.ts';

/**
 * What Leasehold throws when something other than an expected refusal happened. The code is the
 * type; `message` is public and never holds a secret; `cause` is for the log.
 */
export class LeaseError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;
  /** The datacenter that has answered with it; undefined for this one. */
  readonly from: string | undefined;

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: Record<string, unknown>; cause?: unknown; from?: string } = {},
  ) {
    super(message ?? ERROR_CODES[code].text, { cause: options.cause });
    this.name = 'LeaseError';
    this.code = code;
    this.details = options.details ?? {};
    this.from = options.from;
  }

  /** Whether the same request may succeed if it is sent again unchanged. */
  get retryable(): boolean {
    return ERROR_CODES[this.code].retryable;
  }
}

/** The error for a field of a request. @param problem reads on after its name: `must be …`. */
export function invalidField(field: string, problem: string, cause?: unknown): LeaseError {
  return new LeaseError('request.invalid', `${field} ${problem}`, { details: { field }, cause });
}

/** A state that must not occur: a defect of Leasehold, not of its caller. */
class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** @throws {InvariantError} when the condition does not hold. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** Ends an exhaustive `switch`. */
export function assertNever(value: never): never {
  throw new InvariantError(`unexpected value ${JSON.stringify(value)}`);
}

const encoder = new TextEncoder();

/**
 * What was thrown, as the text that is kept of it: at most `reasonBytesMax` bytes, well-formed and without
 * NUL. Never throws, for any value: other people's code throws anything.
 */
export function errorText(thrown: unknown): string {
  // Cut twice: none of a text that is far too long is copied.
  const text = messageOf(thrown)
    .slice(0, 2 * LIMITS.reasonBytesMax)
    .replaceAll('\0', '')
    .toWellFormed();
  const { read } = encoder.encodeInto(text, new Uint8Array(LIMITS.reasonBytesMax));
  return text.slice(0, read);
}

/** The message of an error, or any other value as text. Never throws. */
export function messageOf(thrown: unknown): string {
  try {
    const said: unknown = thrown instanceof Error ? thrown.message : thrown;
    return typeof said === 'string' ? said : String(said);
  } catch {
    return 'an error without a text';
  }
}

/**
 * Every code that an error of the command line can carry besides those of `ERROR_CODES`: what goes
 * wrong on this machine, before or after a controller was asked. The page of errors of the documentation
 * is generated from this table too; `exitCode` is what the command ends with: 1 unless another is given.
 */
export const COMMAND_ERROR_CODES = {
  'cli.usage': {
    exitCode: 2,
    text: 'The command line, or a value in the environment, is wrong.',
    doc: 'Nothing was sent. The message names what is wrong; `--help` shows what the command accepts.',
  },
  'cli.unconfirmed': {
    text: 'The command needs a confirmation.',
    doc: 'Nothing was sent. The message has what can go wrong and until when. Add `--yes` if you are certain.',
  },
  'cli.interrupted': {
    text: 'The command was interrupted before what it waits for had happened.',
    doc: 'What was done stays done; the message has what goes on. The same command waits again.',
  },
  'cli.output_lost': {
    text: 'The answer could not be written to the standard output.',
    doc: 'The disk is full, or the program that reads it has ended. The message has what became of what was acquired.',
  },
  'cli.export_incomplete': {
    exitCode: 3,
    text: 'The export is not complete.',
    doc: 'The message has why. `--from` and `--to` make it smaller.',
  },
  'cli.unreachable': {
    exitCode: 3,
    text: 'No controller answers.',
    doc: 'Is it running? `leasehold up` starts one on this machine; `leasehold doctor` shows more.',
  },
  'cli.unexpected': {
    text: 'An unknown error.',
    doc: 'The message is that of the error. It may come from a newer controller, whose codes this version does not know.',
  },
  'install.incomplete': {
    text: 'A part of this installation is missing.',
    doc: 'The message names the file. Install Leasehold again; in a clone, run `npm run build`.',
  },
  'home.unusable': {
    text: 'The home directory cannot be used.',
    doc: 'Set LEASEHOLD_HOME to a directory that you may write to.',
  },
  'home.unreadable': {
    text: 'A file of the home directory cannot be read.',
    doc: 'It belongs to the user who ran `leasehold up`, or was damaged. Set LEASEHOLD_URL and LEASEHOLD_TOKEN instead, or remove it and start `leasehold up` again.',
  },
  'context.not_found': {
    exitCode: 4,
    text: 'There is no such context.',
    doc: '`leasehold context ls` lists them; `leasehold context add` makes one.',
  },
  'context.exists': {
    text: 'There is a context of this name already.',
    doc: 'Nothing was changed. Add `--replace` to change it, or choose another name.',
  },
  'context.unusable': {
    text: 'The file with the contexts cannot be used.',
    doc: 'The message names it, and says what is wrong: it cannot be read or written, others may read it, or it was damaged. `chmod 600` it, or remove it and add the contexts again.',
  },
  'up.running': {
    text: '`leasehold up` is already running for this home.',
    doc: 'The message names its process. Use that one, end it with Ctrl-C, or set LEASEHOLD_HOME to another directory.',
  },
  'up.cannot_start': {
    text: 'This machine is not ready, for example because a port is in use.',
    doc: 'Every problem is listed. Nothing was started.',
  },
  'up.start_failed': {
    text: 'One of the processes of `leasehold up` could not be started.',
    doc: 'The message has its name, the cause if known, and its last output. The other processes were stopped.',
  },
  'up.died': {
    text: 'One of the processes of `leasehold up` died too often.',
    doc: 'It died eight times within ten minutes, so everything was stopped. The message has its last output; the `logs` folder of the home has the rest.',
  },
  'store.outdated': {
    text: 'The database lacks tables of this version.',
    doc: 'Run `leasehold migrate`.',
  },
  'drone.not_draining': {
    text: 'The drone takes new backends again.',
    doc: 'Somebody has undrained it while `drones drain --stop` waited: backends are not stopped any more.',
  },
  'key.not_found': {
    text: 'There is no such key.',
    doc: 'Names are compared byte for byte, and a key may be in a `--namespace`. `leasehold keys ls --all` shows all.',
  },
  'key.not_held': {
    text: 'Nobody holds this key.',
    doc: 'There is nothing to revoke.',
  },
  'backend.ended': {
    text: 'The backend has ended already.',
    doc: 'There is nothing to stop.',
  },
  'environment.not_found': {
    text: 'There is no such environment.',
    doc: 'Nobody ever held it. Names are compared byte for byte; `leasehold env ls --all` shows all.',
  },
  'environment.not_held': {
    text: 'Nobody holds this environment.',
    doc: 'There is nothing to revoke.',
  },
  'run.not_started': {
    text: 'The command of `leases run` was not started.',
    doc: 'The message has the reason. The exit code is 126 for a command that may not be executed, 127 for one that does not exist, as in a shell.',
  },
} as const satisfies Record<
  `${string}.${string}`,
  { exitCode?: number; text: string; doc: string }
>;

/** One of the codes of {@link COMMAND_ERROR_CODES}. */
export type CommandErrorCode = keyof typeof COMMAND_ERROR_CODES;
