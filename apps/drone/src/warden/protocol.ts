/**
 * What agent and warden say to each other over the warden's socket: one JSON object per line.
 *
 * The agent sends requests `{ id, op, … }` and gets `{ id, ok: true, value }` or
 * `{ id, ok: false, problem }` for each, told apart by their ids. The warden sends events of its own accord.
 * A connection must first prove that it is an agent of this drone: `peek` and `hello` carry the
 * secret of the warden's record. After `peek` it knows which clock it is and commands nothing; with
 * `hello` it takes command. The newest agent is obeyed, the former is told `superseded` and cut off.
 * All instants are readings of the boot clock of this machine.
 */
import type net from 'node:net';

/** Increased when the meaning of a message changes; a `hello` with another number is refused. */
export const PROTOCOL_VERSION = 2;

/**
 * No line to the warden is longer than this. Starting a thousand backends travels as a thousand
 * lines; one start has the arguments and the environment of a program and of a request in it.
 */
export const REQUEST_LINE_MAX = 4 * 1_048_576;

/** The largest number that tools take for a user, and not for "no change". */
export const USER_NUMBER_MAX = 2 ** 31 - 2;

/** No line to the agent is longer than this: the list of all backends of the largest drone is one. */
export const REPLY_LINE_MAX = 128 * 1_048_576;

/** What keeps a backend from the drone on this machine, and what does not. */
export interface IsolationFacts {
  /** `own`: each program runs as a user of its own. `shared`: as the drone's. */
  readonly user: 'own' | 'shared';
  /** A backend sees and signals no process but its own, and ends with the warden, descendants included. */
  readonly pidNamespace: boolean;
  readonly privateProc: boolean;
  /** The drone's state folder and home are covered in a backend's view of the files. */
  readonly hiddenHome: boolean;
  readonly noNewPrivs: boolean;
  /** What is missing, in words. */
  readonly detail: string;
}

export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

export interface WardenIdentity {
  /** A random id made when the warden started: local times of this machine belong to it. */
  readonly clockId: string;
  readonly pid: number;
  readonly isolation: IsolationFacts;
}

/** When a backend must stop and when it must be gone, as the agent has it from its grant. */
export interface OfferedDeadlines {
  readonly leaseId: string;
  readonly softAtMs: number;
  readonly hardAtMs: number;
}

export interface ExtendRequest extends OfferedDeadlines {
  readonly backendId: string;
}

interface CommonStart extends ExtendRequest {
  /** From grant to hard, and from soft to hard: no deadline may be further ahead than the first. */
  readonly hardAfterMs: number;
  readonly softToHardMs: number;
  /** How long after hard the leash ends a warden that has not acted. */
  readonly leashMs: number;
  readonly program: string;
  readonly stopSignal: string;
  readonly stopGraceMs: number;
  /** The agent's own notes, kept for the next agent. The warden never reads them. */
  readonly meta: unknown;
}

/** What one backend of a command may use. */
export interface CommandLimits {
  readonly memoryBytes: number;
  /** Processes and threads. */
  readonly pids: number;
  /** Processors; null for as many as there are. */
  readonly cpus: number | null;
  /** Of each file that it writes. */
  readonly fileBytes: number;
  /** How many backends of its program may run at once. */
  readonly together: number;
}

/** A program of this machine, and how it is run. Its backends share a folder of data with the program's name. */
export interface ProcessStart {
  readonly program: string;
  readonly stopSignal: string;
  /** The user that the program runs as; null for the warden's own. */
  readonly user: UserIds | null;
  readonly places: ProgramPlaces;
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Null: the program's folder of data. */
  readonly cwd: string | null;
  /** Left out by an agent of an earlier version: then nothing is bounded. */
  readonly limits?: CommandLimits | undefined;
}

/** The start of a program of this machine. */
export interface CommandStart extends CommonStart, ProcessStart {}

/**
 * The start of a process that holds no key, until a backend claims it. It belongs to the agent that asked for it, and
 * ends with that agent's command.
 */
export interface WarmStart extends ProcessStart {
  readonly warmId: string;
}

/** A backend that a warm process becomes. */
export interface ClaimStart extends CommonStart {
  readonly claim: {
    readonly warmId: string;
    /** What its environment would have had; the process finds it in its claim file. */
    readonly variables: Readonly<Record<string, string>>;
  };
}

/** Why a claim is refused whose process has ended: the backend may be started without it. */
export const NOT_WARM = 'not_warm';

/** The end of a warm process that no backend has claimed. */
export interface WarmEnd {
  readonly warmId: string;
  readonly exitCode: number | null;
  readonly detail: string | null;
}

/** The start of a container. */
export interface ContainerStart extends CommonStart {
  readonly container: ContainerRequest;
}

export type StartRequest = CommandStart | ContainerStart | ClaimStart;

export interface ContainerRequest {
  /** The socket of its engine. */
  readonly engine: string;
  readonly name: string;
  /** The opaque id of its key: no two containers of one key run at once. */
  readonly keyId: string;
  /** Its limit of memory, as it is configured. */
  readonly memory: string;
  /** What the engine is asked to make, as its API has it. */
  readonly create: Readonly<Record<string, unknown>>;
}

/** Folders of the machine that matter to a program, all absolute, real and there. */
export interface ProgramPlaces {
  /** Leasehold's own: empty in the program's view. */
  readonly hidden: readonly string[];
  /** What the program's user may not enter: empty in its view, except for what it reads. */
  readonly blocked: readonly string[];
  /** What the program reads. */
  readonly reads: readonly string[];
  /** What becomes read-only in its view. */
  readonly fixed: readonly string[];
}

export interface StopRequest {
  readonly backendId: string;
  readonly mode: 'soft' | 'hard';
  readonly reason: string;
  /** The key is lost: the time from soft to hard is all that is left, and no deadline moves again. */
  readonly isKeyLost: boolean;
}

/** `gone`: every process of the backend has been seen to be gone. */
export type BackendState = 'running' | 'stopping' | 'gone';

export interface BackendSnapshot extends ExtendRequest {
  /** Zero for a container that is just being started. */
  readonly pid: number;
  readonly state: BackendState;
  /** Why it was stopped; null while nobody stopped it. */
  readonly stopReason: string | null;
  readonly isKilled: boolean;
  /** As a shell reports it: 128 + n for signal n. Null while it lives, and when it was killed. */
  readonly exitCode: number | null;
  /** When the last of its processes was seen to be gone; null before. */
  readonly goneAtMs: number | null;
  /** What else is known of its end, in words; left out by a warden of an earlier version. */
  readonly detail?: string | null;
  readonly meta: unknown;
}

/** How a connection begins. */
export interface Introduction {
  readonly id: number;
  readonly op: 'peek' | 'hello';
  readonly protocol: number;
  /** As it is in the warden's record, which only the drone's own user can read. */
  readonly secret: string;
}

/** What only the agent in command may ask. */
export type Command =
  | { readonly id: number; readonly op: 'start'; readonly backend: StartRequest }
  | { readonly id: number; readonly op: 'warm'; readonly warm: WarmStart }
  | { readonly id: number; readonly op: 'cool'; readonly warmId: string }
  | { readonly id: number; readonly op: 'extend'; readonly items: readonly ExtendRequest[] }
  | { readonly id: number; readonly op: 'stop'; readonly stop: StopRequest }
  | { readonly id: number; readonly op: 'note'; readonly backendId: string; readonly meta: unknown }
  | { readonly id: number; readonly op: 'alive' }
  | { readonly id: number; readonly op: 'list' }
  | { readonly id: number; readonly op: 'forget'; readonly backendId: string }
  | { readonly id: number; readonly op: 'shutdown' };

export type Request = Introduction | Command;

export type Reply =
  | { readonly id: number; readonly ok: true; readonly value: unknown }
  | { readonly id: number; readonly ok: false; readonly problem: string };

export type WardenEvent =
  | { readonly event: 'changed'; readonly backend: BackendSnapshot }
  | { readonly event: 'cooled'; readonly end: WarmEnd }
  | { readonly event: 'superseded' };

/** A message that does not follow the protocol. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}

/** Reads and writes one JSON object per line on a socket. */
export interface LineChannel {
  /** Whether the message was handed to the system; false once the connection has ended. */
  send(message: unknown): boolean;
  close(): void;
  /** Ends the connection without waiting for what is under way. */
  destroy(): void;
}

/**
 * Calls `onLine` for every whole line. A line of more than `lengthMax` UTF-16 units ends the
 * connection: the other side does not speak this protocol.
 */
export function lineChannel(
  socket: net.Socket,
  { lengthMax, onLine }: { lengthMax: number; onLine: (line: string) => void },
): LineChannel {
  let parts: string[] = [];
  let partsLength = 0;
  socket.setEncoding('utf8');
  socket.on('data', (chunk: string) => {
    const lines = chunk.split('\n');
    for (const [index, piece] of lines.entries()) {
      parts.push(piece);
      partsLength += piece.length;
      if (partsLength > lengthMax) {
        socket.destroy();
        return;
      }
      if (index === lines.length - 1) break;
      const line = parts.join('');
      parts = [];
      partsLength = 0;
      onLine(line);
    }
  });

  return {
    send: (message) => {
      if (!socket.writable) return false;
      socket.write(`${JSON.stringify(message)}\n`);
      return true;
    },
    close: () => socket.end(),
    destroy: () => socket.destroy(),
  };
}

type Fields = Readonly<Record<string, unknown>>;

/**
 * Checks what the agent sends. By hand, because the warden keeps its memory small.
 * @throws {ProtocolError} naming the field.
 */
export function decodeRequest(line: string): Request {
  const message = fieldsOf(parseJson(line), 'request');
  const id = numberOf(message, 'id');
  switch (message['op']) {
    case 'peek':
    case 'hello':
      return {
        id,
        op: message['op'],
        protocol: numberOf(message, 'protocol'),
        secret: stringOf(message, 'secret'),
      };
    case 'start':
      return { id, op: 'start', backend: decodeStart(fieldsOf(message['backend'], 'backend')) };
    case 'extend':
      return {
        id,
        op: 'extend',
        items: listOf(message, 'items').map((item) => decodeExtend(fieldsOf(item, 'items'))),
      };
    case 'stop':
      return { id, op: 'stop', stop: decodeStop(fieldsOf(message['stop'], 'stop')) };
    case 'note':
      return {
        id,
        op: 'note',
        backendId: idOf(message, 'backendId'),
        meta: message['meta'] ?? null,
      };
    case 'alive':
    case 'list':
    case 'shutdown':
      return { id, op: message['op'] };
    case 'forget':
      return { id, op: 'forget', backendId: idOf(message, 'backendId') };
    default:
      return decodeOfWarm(message, id);
  }
}

/** What is asked about warm processes. */
function decodeOfWarm(message: Fields, id: number): Request {
  switch (message['op']) {
    case 'warm':
      return { id, op: 'warm', warm: decodeWarm(fieldsOf(message['warm'], 'warm')) };
    case 'cool':
      return { id, op: 'cool', warmId: idOf(message, 'warmId') };
    default:
      throw new ProtocolError(`unknown op ${JSON.stringify(message['op'])}`);
  }
}

function decodeStart(fields: Fields): StartRequest {
  const common = {
    ...decodeExtend(fields),
    hardAfterMs: numberOf(fields, 'hardAfterMs'),
    softToHardMs: numberOf(fields, 'softToHardMs'),
    leashMs: numberOf(fields, 'leashMs'),
    ...decodeRunning(fields),
    stopGraceMs: numberOf(fields, 'stopGraceMs'),
    meta: fields['meta'] ?? null,
  };
  if (fields['container'] !== undefined) {
    return { ...common, container: decodeContainer(fieldsOf(fields['container'], 'container')) };
  }
  if (fields['claim'] !== undefined) {
    const claim = fieldsOf(fields['claim'], 'claim');
    const variables = variablesOf(claim, 'variables');
    return { ...common, claim: { warmId: idOf(claim, 'warmId'), variables } };
  }
  return { ...common, ...decodeProcess(fields) };
}

function decodeWarm(fields: Fields): WarmStart {
  return { warmId: idOf(fields, 'warmId'), ...decodeRunning(fields), ...decodeProcess(fields) };
}

function decodeRunning(fields: Fields): Pick<ProcessStart, 'program' | 'stopSignal'> {
  return {
    program: idOf(fields, 'program'),
    stopSignal: matching(fields, 'stopSignal', {
      form: /^SIG[A-Z0-9]{2,10}$/u,
      rule: 'the name of a signal',
    }),
  };
}

function decodeProcess(fields: Fields): Omit<ProcessStart, 'program' | 'stopSignal'> {
  return {
    user: fields['user'] === null ? null : decodeUser(fieldsOf(fields['user'], 'user')),
    places: decodePlaces(fieldsOf(fields['places'], 'places')),
    command: stringOf(fields, 'command'),
    args: listOf(fields, 'args').map((arg) => text(arg, 'args')),
    env: variablesOf(fields, 'env'),
    cwd: fields['cwd'] === null ? null : absolute(fields['cwd'], 'cwd'),
    limits:
      fields['limits'] === undefined
        ? undefined
        : decodeLimits(fieldsOf(fields['limits'], 'limits')),
  };
}

function variablesOf(fields: Fields, name: string): Record<string, string> {
  return Object.fromEntries(
    Object.entries(fieldsOf(fields[name], name)).map(([variable, value]) => [
      variable,
      text(value, name),
    ]),
  );
}

function decodeContainer(fields: Fields): ContainerRequest {
  return {
    engine: absolute(fields['engine'], 'engine'),
    name: idOf(fields, 'name'),
    keyId: stringOf(fields, 'keyId'),
    memory: stringOf(fields, 'memory'),
    create: fieldsOf(fields['create'], 'create'),
  };
}

function decodeLimits(fields: Fields): CommandLimits {
  return {
    memoryBytes: wholeOf(fields, 'memoryBytes'),
    pids: wholeOf(fields, 'pids'),
    cpus: fields['cpus'] === null ? null : numberOf(fields, 'cpus'),
    fileBytes: wholeOf(fields, 'fileBytes'),
    together: wholeOf(fields, 'together'),
  };
}

function decodeUser(fields: Fields): UserIds {
  return { uid: userNumberOf(fields, 'uid'), gid: userNumberOf(fields, 'gid') };
}

function decodePlaces(fields: Fields): ProgramPlaces {
  const folders = (name: string): string[] =>
    listOf(fields, name).map((folder) => absolute(folder, name));
  return {
    hidden: folders('hidden'),
    blocked: folders('blocked'),
    reads: folders('reads'),
    fixed: folders('fixed'),
  };
}

function decodeExtend(fields: Fields): ExtendRequest {
  return {
    backendId: idOf(fields, 'backendId'),
    leaseId: stringOf(fields, 'leaseId'),
    softAtMs: numberOf(fields, 'softAtMs'),
    hardAtMs: numberOf(fields, 'hardAtMs'),
  };
}

function decodeStop(fields: Fields): StopRequest {
  const mode = fields['mode'];
  if (mode !== 'soft' && mode !== 'hard') throw new ProtocolError('mode must be soft or hard');
  return {
    backendId: idOf(fields, 'backendId'),
    mode,
    reason: stringOf(fields, 'reason'),
    isKeyLost: fields['isKeyLost'] === true,
  };
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line) as unknown;
  } catch (cause) {
    throw new ProtocolError('not JSON', { cause });
  }
}

function fieldsOf(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ProtocolError(`${name} must be an object`);
  }
  return value as Fields;
}

function listOf(fields: Fields, name: string): readonly unknown[] {
  const value = fields[name];
  if (!Array.isArray(value)) throw new ProtocolError(`${name} must be a list`);
  return value as readonly unknown[];
}

function numberOf(fields: Fields, name: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new ProtocolError(`${name} must be a number`);
  }
  return value;
}

function stringOf(fields: Fields, name: string): string {
  return text(fields[name], name);
}

function text(value: unknown, name: string): string {
  if (typeof value !== 'string' || value.includes('\0')) {
    throw new ProtocolError(`${name} must be a string without NUL`);
  }
  return value;
}

/** They become part of a shell's command line. */
function wholeOf(fields: Fields, name: string): number {
  const value = numberOf(fields, name);
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new ProtocolError(`${name} must be a whole number from 1`);
  }
  return value;
}

/** Never root, and a number that the system's tools accept as a user. */
function userNumberOf(fields: Fields, name: string): number {
  const value = numberOf(fields, name);
  if (!Number.isInteger(value) || value < 1 || value > USER_NUMBER_MAX) {
    throw new ProtocolError(`${name} must be a whole number from 1 to ${String(USER_NUMBER_MAX)}`);
  }
  return value;
}

function absolute(value: unknown, name: string): string {
  const folder = text(value, name);
  if (!folder.startsWith('/')) throw new ProtocolError(`${name} must hold absolute paths`);
  return folder;
}

/** Ids become names of files and folders, so their form is part of the protocol. */
function idOf(fields: Fields, name: string): string {
  return matching(fields, name, {
    form: /^[a-z0-9-]{1,64}$/u,
    rule: '1 to 64 of a-z, 0-9 and "-"',
  });
}

function matching(fields: Fields, name: string, of: { form: RegExp; rule: string }): string {
  const value = stringOf(fields, name);
  if (!of.form.test(value)) throw new ProtocolError(`${name} must be ${of.rule}`);
  return value;
}
