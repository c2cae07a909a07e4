/** What a backend is started for, what the warden is asked to start, and what the next agent must know of it. */
import { isForbiddenEnvName } from '@leasehold/api/drone-file';
import type { Ladder } from '@leasehold/keys-core';
import type { ProgramConfig } from '../config.ts';
import type { CommandStart, ContainerStart, StartRequest } from '../warden/protocol.ts';
import { leashMs } from './warden-link.ts';

/** What a backend is, in every stage. */
export interface RunIdentity {
  readonly backendId: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly programName: string;
  readonly program: ProgramConfig;
  readonly ladder: Ladder;
}

/** What only a backend that is yet to be started has. */
export interface LaunchPlan {
  /** The program is told the name, and an id in place of the namespace: see `keyIdOf`. */
  readonly key: { readonly name: string; readonly namespace: string };
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly lifetimeLimitMs: number | null;
}

/** What a backend is started for. */
export interface WorkOrder {
  readonly identity: RunIdentity;
  readonly plan: LaunchPlan;
  readonly keyId: string;
  /** Where the backend is reached. */
  readonly port: number;
}

/** The part of a start that depends on the kind of a program. */
export type WorkFields =
  | Pick<CommandStart, 'user' | 'places' | 'command' | 'args' | 'env' | 'cwd' | 'limits'>
  | Pick<ContainerStart, 'container'>;

export interface PreparedWork {
  /** The image that a container is made of; null for a command. */
  readonly imageId: string | null;
  fieldsOf(order: WorkOrder): WorkFields;
}

/** A program on this machine now. Each kind of program has its own; all else of a backend is the same. */
export interface Work {
  /** Why it must not be started, in words for an operator; undefined when it may be. */
  readonly refusal: string | undefined;
  /**
   * Resolves when it can be started.
   * @throws {StartFailed} when it cannot.
   */
  prepare(signal: AbortSignal): Promise<PreparedWork>;
}

/**
 * What the agent has the warden keep for it about a backend, so that the next agent can adopt it.
 * Instants are readings of the boot clock of this machine.
 */
export interface BackendNotes {
  readonly version: 1;
  readonly program: string;
  readonly leaseId: string;
  readonly fencingToken: string;
  readonly ladder: Ladder;
  readonly port: number;
  readonly lifetimeEndsAtMs: number | null;
  readonly startupEndsAtMs: number;
  readonly isReady: boolean;
}

/** Undefined for notes of another version of this program, or of none. */
export function readNotes(value: unknown): BackendNotes | undefined {
  if (typeof value !== 'object' || value === null || !('version' in value)) return undefined;
  // Only an agent of this version writes this version, and only to its own warden.
  return value.version === 1 ? (value as BackendNotes) : undefined;
}

/** What the next agent must know of a backend that is about to be started on a port. */
export function notesOf(
  identity: RunIdentity,
  of: { plan: LaunchPlan; port: number; nowMs: number },
): BackendNotes {
  const { lifetimeLimitMs } = of.plan;
  return {
    version: 1,
    program: identity.programName,
    leaseId: identity.leaseId,
    fencingToken: identity.fencingToken,
    ladder: identity.ladder,
    port: of.port,
    lifetimeEndsAtMs: lifetimeLimitMs === null ? null : of.nowMs + lifetimeLimitMs,
    startupEndsAtMs: of.nowMs + identity.program.readiness.timeoutMs,
    isReady: false,
  };
}

/** What the warden is asked to start. */
export function startRequestOf(
  { backendId, leaseId, program, programName, ladder }: RunIdentity,
  of: {
    fields: WorkFields;
    notes: BackendNotes;
    deadlines: { softAtMs: number; hardAtMs: number };
  },
): StartRequest {
  return {
    ...of.fields,
    ...{ backendId, leaseId, ...of.deadlines },
    hardAfterMs: ladder.hardAfterMs,
    softToHardMs: ladder.hardAfterMs - ladder.softAfterMs,
    leashMs: leashMs(ladder),
    program: programName,
    stopSignal: program.stopSignal,
    stopGraceMs: program.stopGraceMs,
    meta: of.notes,
  };
}

/** Where programs look for commands, unless their configuration says otherwise. */
export const PROGRAM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const INHERITED = ['LANG', 'TZ'] as const;

/**
 * What a backend finds in its environment. The name of its key is there, its namespace and its tag
 * are not: the id of the key stands for them. Of the agent's own environment, which holds a token,
 * it gets the language and the time zone. `HOME` and `TMPDIR` are set by the warden. Leasehold's
 * variables come last and cannot be overridden.
 */
export function backendEnv(input: {
  readonly inherited: Readonly<Record<string, string | undefined>>;
  readonly program: Readonly<Record<string, string>>;
  readonly requested: Readonly<Record<string, string>>;
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly port: number;
  /** Another variable that has the port. */
  readonly portEnv?: string | undefined;
}): Record<string, string> {
  const inherited = INHERITED.flatMap((name) => {
    const value = input.inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    PATH: PROGRAM_PATH,
    // Python keeps back what it prints, until it has printed much, unless it writes to a terminal.
    PYTHONUNBUFFERED: '1',
    ...Object.fromEntries(inherited),
    ...input.program,
    ...input.requested,
    ...leaseholdEnv(input),
  };
}

/** What Leasehold tells every backend, whatever kind of program it runs. */
export function leaseholdEnv(input: {
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly port: number;
  /** Another variable that has the port. */
  readonly portEnv?: string | undefined;
}): Record<string, string> {
  return {
    LEASEHOLD_KEY: input.keyName,
    LEASEHOLD_KEY_ID: input.keyId,
    LEASEHOLD_FENCING_TOKEN: input.fencingToken,
    LEASEHOLD_BACKEND_ID: input.backendId,
    PORT: String(input.port),
    ...(input.portEnv === undefined ? {} : { [input.portEnv]: String(input.port) }),
  };
}

/** Why a program does not take what a request passes; undefined when it does. */
export function requestProblem(
  program: { readonly allowArgs: boolean; readonly allowEnv: readonly string[] },
  request: { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> },
): string | undefined {
  if (request.args.length > 0 && !program.allowArgs) return 'the program takes no arguments';
  const refused = Object.keys(request.env).filter(
    (name) => isForbiddenEnvName(name) || !program.allowEnv.includes(name),
  );
  return refused.length === 0 ? undefined : `the program does not take ${refused.join(', ')}`;
}
