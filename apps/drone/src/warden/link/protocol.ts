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
import type { OfferedDeadlines } from '../deadlines.ts';

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
  /** Whether it runs containers; left out by a warden of an earlier version, which does not. */
  readonly containers?: boolean;
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

/** The start of a program of this machine. Its backends share a folder of data with the program's name. */
export interface CommandStart extends CommonStart {
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

/** The start of a container. */
export interface ContainerStart extends CommonStart {
  readonly container: ContainerRequest;
}

export type StartRequest = CommandStart | ContainerStart;

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
  | { readonly event: 'superseded' };

/** A message that does not follow the protocol. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError';
}
