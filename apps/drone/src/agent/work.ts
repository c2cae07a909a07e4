/** What a backend is started for, what the warden is asked to start, and what the next agent must know of it. */
import { lstatSync, realpathSync, type Stats, statSync } from 'node:fs';
import path from 'node:path';
import { bytesOf, isForbiddenEnvName, type IsolationLevel } from '@leasehold/api/drone-file';
import type { Ladder } from '@leasehold/keys-core';
import type { CommandConfig, ProgramConfig } from '../config.ts';
import { isInside } from '../warden/program-files.ts';
import type {
  ClaimStart,
  CommandStart,
  ContainerStart,
  IsolationFacts,
  ProcessStart,
  ProgramPlaces,
  StartRequest,
  UserIds,
} from '../warden/protocol.ts';
import { leashMs } from './warden-link.ts';

// The programs that are commands of this machine: what the warden is asked to start, where, and as whom.

/** What is the same for all programs of a drone. */
export interface DronePlace {
  readonly facts: IsolationFacts;
  readonly stateDir: string;
  readonly home: string;
  /** Files that control the drone: its configuration, and its own program. */
  readonly steering: readonly string[];
  /** The agent's own PATH, where a program that is named without a folder is looked for last. */
  readonly searchPath: string;
}

interface ProgramPlace {
  /** Null: as the drone's own user. */
  readonly user: UserIds | null;
  /** Null: the program's folder of data. */
  readonly cwd: string | null;
  readonly command: string;
  readonly places: ProgramPlaces;
  /** Why it must not be started; undefined when it may be. */
  readonly refusal: string | undefined;
  /** What is likely to keep it from running, in words for an operator. */
  readonly problems: readonly string[];
}

/** A command of this machine. */
export function commandWork(
  program: CommandConfig,
  place: ProgramPlace,
  of: {
    readonly inherited: Readonly<Record<string, string | undefined>>;
    readonly capacity: number;
  },
): Work {
  const { inherited, capacity } = of;
  const { refusal, user, places, command, cwd, problems } = place;
  const { portEnv } = program;
  const fields = {
    user,
    places,
    command,
    cwd,
    limits: {
      memoryBytes: bytesOf(program.memoryMax),
      pids: program.pidsMax,
      cpus: program.cpuMax ?? null,
      fileBytes: bytesOf(program.fileSizeMax),
      together: Math.max(1, Math.min(program.resources?.instancesMax ?? capacity, capacity)),
    },
  };
  const fieldsOf = ({ identity, plan, keyId, port }: WorkOrder): WorkFields => ({
    ...fields,
    args: [...program.args, ...plan.args],
    env: backendEnv({
      inherited,
      program: program.env,
      requested: plan.env,
      keyName: plan.key.name,
      keyId,
      fencingToken: identity.fencingToken,
      backendId: identity.backendId,
      port,
      portEnv,
    }),
  });
  const warmFieldsOf = (port: number): WarmFields => ({
    ...fields,
    args: program.args,
    env: {
      ...commonEnv({ inherited, program: program.env, requested: {} }),
      ...portVariables({ port, portEnv }),
    },
  });
  return {
    refusal: refusal === undefined ? undefined : `the program cannot run here: ${refusal}`,
    prepare: () => Promise.resolve({ imageId: null, likelyProblem: problems[0], fieldsOf }),
    warmFieldsOf,
  };
}

/**
 * Where a program runs: as whom, in which folder, and what it sees of the machine's files. Looked up
 * for each start, because files and their modes change; problems are logged once, when the drone
 * starts.
 */
export function placeOf(program: CommandConfig, drone: DronePlace): ProgramPlace {
  const { facts, home, stateDir } = drone;
  const user = facts.user === 'own' ? program.user : null;
  const command = commandOf(program, drone.searchPath);
  const cwd = program.cwd === null ? null : (realOf(program.cwd) ?? program.cwd);
  const hidden = [home, stateDir].flatMap((folder) => realOf(folder) ?? []);
  const needs = needsOf({ cwd, command, args: [...program.args, ...program.reads] });
  const files = filesOf({ cwd, args: program.args });
  const isOpen = (folder: string): boolean =>
    !hidden.includes(folder) && !isInside(folder, realOf(stateDir) ?? stateDir);
  const reads = needs.filter(isOpen);
  const blocked = user === null ? [] : blockedAbove([...reads, ...hidden], user);
  return {
    user,
    cwd,
    command: command ?? program.command,
    places: {
      hidden,
      blocked,
      reads,
      fixed: user === null ? fixedOf(drone, { reads, hidden }) : [],
    },
    refusal: refusalOf(program, user),
    problems: [
      ...(command === undefined ? [`the command ${program.command} does not exist`] : []),
      ...needs
        .filter((folder) => !isOpen(folder))
        .map((folder) => `${folder} is hidden from programs: put its files elsewhere`),
      ...reads.flatMap((folder) => readProblem(folder, { user, facts, blocked })),
      ...files.flatMap((file) => fileProblem(file, user)),
    ],
  };
}

/** A program with a configured user runs as no other. */
function refusalOf(program: CommandConfig, user: UserIds | null): string | undefined {
  const runsAs = user?.uid ?? process.getuid?.();
  if (!program.isUserNamed || runsAs === program.user.uid) return undefined;
  return `it must run as user ${String(program.user.uid)}, but this drone may not change users`;
}

/** As the shell would find it; undefined when it is not there. */
function commandOf({ command, env }: CommandConfig, searchPath: string): string | undefined {
  if (path.isAbsolute(command)) return isFile(command) ? straight(command) : undefined;
  // The system searches a PATH of the program's own; a relative path is taken from the program's folder.
  if (command.includes('/') || env['PATH'] !== undefined) return command;
  return [...PROGRAM_PATH.split(':'), ...searchPath.split(':')]
    .filter((folder) => path.isAbsolute(folder))
    .map((folder) => straight(path.join(folder, command)))
    .find(isFile);
}

/** Without symbolic links on the way: in a cover, only real folders are shown. */
function straight(file: string): string {
  return path.join(realOf(path.dirname(file)) ?? path.dirname(file), path.basename(file));
}

/** The folders that a program reads, as far as its configuration names them. */
function needsOf(of: {
  cwd: string | null;
  command: string | undefined;
  args: readonly string[];
}): string[] {
  const files = [of.command ?? '', ...of.args].filter((file) => path.isAbsolute(file));
  // Of a symbolic link, the folder that it is in and the one that it leads to.
  const folders = files.flatMap((file) => {
    const real = realOf(file);
    if (real === undefined) return [];
    return isFolder(real) ? [real] : [path.dirname(real), realOf(path.dirname(file)) ?? real];
  });
  return [...new Set([...(of.cwd === null ? [] : [of.cwd]), ...folders])];
}

/** The files that its arguments name, such as the script of an interpreter. */
function filesOf({ cwd, args }: { cwd: string | null; args: readonly string[] }): string[] {
  const found = args.map((word) => path.resolve(cwd ?? '/', word));
  return [...new Set(found.filter(isFile))];
}

function fileProblem(file: string, user: UserIds | null): string[] {
  if (user === null || may(file, user, READ)) return [];
  const remedy = `make it the owner, or \`chmod o+r ${file}\``;
  return [`its user ${String(user.uid)} may not read the file ${file}: ${remedy}`];
}

function readProblem(
  folder: string,
  of: { user: UserIds | null; facts: IsolationFacts; blocked: readonly string[] },
): string[] {
  const { user, facts, blocked } = of;
  if (!isFolder(folder)) return [`the folder ${folder} does not exist`];
  if (user === null) return [];
  const who = `user ${String(user.uid)}`;
  if (!may(folder, user, READ_AND_ENTER)) {
    const remedy = `make it the owner, or \`chmod o+rx ${folder}\``;
    return [`its ${who} may not read the folder ${folder}: ${remedy}`];
  }
  // In a view of its own, what is blocked is covered and the folder shown in the cover.
  const above = facts.hiddenHome ? undefined : blocked.find((one) => isInside(folder, one));
  return above === undefined
    ? []
    : [`its ${who} may not enter ${above}, and so cannot read ${folder}`];
}

const READ = 0o4;
const READ_AND_ENTER = 0o5;
const ENTER = 0o1;

/** For each folder the outermost one above it that a user may not enter. */
function blockedAbove(folders: readonly string[], user: UserIds): string[] {
  const found = folders.map((folder) =>
    foldersAbove(folder).find((above) => !may(above, user, ENTER)),
  );
  return [...new Set(found.filter((folder) => folder !== undefined))];
}

/** By the mode of a folder or file alone: a user of a program has no groups but its own. */
function may(file: string, { uid, gid }: UserIds, wanted: number): boolean {
  const found = statOf(file);
  if (found === undefined) return false;
  if (uid === 0) return true;
  const shift = found.uid === uid ? 6 : found.gid === gid ? 3 : 0;
  return ((found.mode >> shift) & wanted) === wanted;
}

/**
 * What a program of the drone's own user must not change: the outermost folders of that user above
 * the files that control the drone, and what it reads of Leasehold's home. Root owns all folders, and
 * may change files whatever their mode: there is no such folder for it.
 */
function fixedOf(
  { steering }: DronePlace,
  of: { reads: readonly string[]; hidden: readonly string[] },
): string[] {
  const own = process.getuid?.() ?? 0;
  if (own === 0) return [];
  const outermost = steering.flatMap((file) => {
    const real = realOf(file);
    if (real === undefined) return [];
    const folder = foldersAbove(real).find((above) => statOf(above)?.uid === own);
    return folder === undefined || folder === '/' ? [] : [folder];
  });
  const shown = of.reads.filter((read) => of.hidden.some((folder) => isInside(read, folder)));
  return [...new Set([...outermost, ...shown])];
}

/** Every folder above a path, outermost first. */
function foldersAbove(to: string): string[] {
  const parent = path.dirname(to);
  return parent === to ? [] : [...foldersAbove(parent), parent];
}

function realOf(file: string): string | undefined {
  try {
    return realpathSync(file);
  } catch {
    return undefined;
  }
}

/** Undefined for what cannot be looked at: an argument of a program is any text, and rarely a path. */
function statOf(file: string, stat: (path: string) => Stats = statSync): Stats | undefined {
  try {
    return stat(file);
  } catch {
    return undefined;
  }
}

function isFolder(file: string): boolean {
  return statOf(file, lstatSync)?.isDirectory() === true;
}

function isFile(file: string): boolean {
  return statOf(file)?.isFile() === true;
}

/** The machine does not keep programs from the drone as its configuration requires. */
class IsolationTooWeak extends Error {
  override readonly name = 'IsolationTooWeak';
}

/** @throws {IsolationTooWeak} saying what is missing. */
export function requireIsolation(facts: IsolationFacts, level: IsolationLevel): void {
  if (meets(facts, level)) return;
  throw new IsolationTooWeak(
    `the configuration requires isolation "${level}", which this machine does not provide: ${facts.detail}`,
  );
}

function meets(facts: IsolationFacts, level: IsolationLevel): boolean {
  const { user, pidNamespace, privateProc, hiddenHome, noNewPrivs } = facts;
  switch (level) {
    case 'none':
      return true;
    case 'namespaces':
      return pidNamespace && privateProc && hiddenHome && noNewPrivs;
    case 'own-user':
      return meets(facts, 'namespaces') && user === 'own';
  }
}

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
  /** A process that runs already, and waits for it; undefined where none is, or none can be claimed. */
  readonly warm?: KeptWarm | undefined;
}

/** A warm process that only one backend may claim. */
export interface KeptWarm {
  readonly warmId: string;
  readonly port: number;
  /** Where it finds its claim, until it removes it. */
  readonly claimFile: string;
  /** Whether the warden has reported its end. */
  readonly hasEnded: boolean;
  /** A backend has claimed it: the port is that backend's from now on. */
  claimed(): void;
  /** No backend claims it any more: it is ended. Does nothing after `claimed`. */
  discard(): void;
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
type WorkFields =
  | Pick<CommandStart, 'user' | 'places' | 'command' | 'args' | 'env' | 'cwd' | 'limits'>
  | Pick<ContainerStart, 'container'>
  | Pick<ClaimStart, 'claim'>;

/** The part of the start of a warm process that its program decides. */
type WarmFields = Omit<ProcessStart, 'program' | 'stopSignal'>;

export interface PreparedWork {
  /** The image that a container is made of; null for a command. */
  readonly imageId: string | null;
  /** What probably explains a crash before it is ready, in words for an operator. */
  readonly likelyProblem?: string | undefined;
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
  /** What runs without a key, where that is possible. */
  readonly warmFieldsOf?: (port: number) => WarmFields;
}

/** What a backend gets that claims a warm process: all that its environment would have had besides. */
export function claimOf(
  warmId: string,
  { identity, plan, keyId }: Omit<WorkOrder, 'port'>,
): Pick<ClaimStart, 'claim'> {
  const { fencingToken, backendId } = identity;
  const variables = {
    ...plan.env,
    ...keyVariables({ keyName: plan.key.name, keyId, fencingToken, backendId }),
  };
  return { claim: { warmId, variables } };
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
  /** What it is, and in which network, is as it was started, whatever the configuration says by now. */
  readonly isContainer: boolean;
  /** Its port in a network of its own; left out by one that is in the machine's. */
  readonly inside?: number;
  readonly lifetimeEndsAtMs: number | null;
  readonly startupEndsAtMs: number;
  readonly isReady: boolean;
  /** Where the program finds its claim: it is not ready before it has removed that. Left out by one that was not warm. */
  readonly claimFile?: string;
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
  of: { plan: LaunchPlan; port: number; nowMs: number; claimFile?: string | undefined },
): BackendNotes {
  const { lifetimeLimitMs } = of.plan;
  return {
    version: 1,
    program: identity.programName,
    leaseId: identity.leaseId,
    fencingToken: identity.fencingToken,
    ladder: identity.ladder,
    port: of.port,
    isContainer: identity.program.kind === 'container',
    lifetimeEndsAtMs: lifetimeLimitMs === null ? null : of.nowMs + lifetimeLimitMs,
    startupEndsAtMs: of.nowMs + identity.program.readiness.timeoutMs,
    isReady: false,
    ...insideOf(identity.program, of.port),
    ...(of.claimFile !== undefined && { claimFile: of.claimFile }),
  };
}

function insideOf(program: ProgramConfig, port: number): Pick<BackendNotes, 'inside'> {
  if (program.kind !== 'container' || program.network !== 'bridge') return {};
  return { inside: program.containerPort ?? port };
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
    backendId,
    leaseId,
    ...of.deadlines,
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
const PROGRAM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

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
  return { ...commonEnv(input), ...leaseholdEnv(input) };
}

/** Without what belongs to a key. */
function commonEnv(input: {
  readonly inherited: Readonly<Record<string, string | undefined>>;
  readonly program: Readonly<Record<string, string>>;
  readonly requested: Readonly<Record<string, string>>;
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
  };
}

/** What Leasehold tells every backend, whatever kind of program it runs. */
export function leaseholdEnv(
  input: Parameters<typeof keyVariables>[0] & Parameters<typeof portVariables>[0],
): Record<string, string> {
  return { ...keyVariables(input), ...portVariables(input) };
}

function keyVariables(of: {
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
}): Record<string, string> {
  return {
    LEASEHOLD_KEY: of.keyName,
    LEASEHOLD_KEY_ID: of.keyId,
    LEASEHOLD_FENCING_TOKEN: of.fencingToken,
    LEASEHOLD_BACKEND_ID: of.backendId,
  };
}

function portVariables(of: {
  readonly port: number;
  /** Another variable that has the port. */
  readonly portEnv?: string | undefined;
}): Record<string, string> {
  const port = String(of.port);
  return { PORT: port, ...(of.portEnv === undefined ? {} : { [of.portEnv]: port }) };
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
