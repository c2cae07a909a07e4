/**
 * The config file of a drone: which programs it offers, and how they are run. Drones read it, and
 * `leasehold up` checks and writes it. All problems are listed at once.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { parseEnvironment, type Environment, type ParsedEnvironment } from '@leasehold/service-kit';
import { controllerUrlArray } from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { idSchema } from '../contract/common.ts';
import {
  fieldsAlone,
  portSchema,
  programSchema,
  programsOf,
  userNumberSchema,
} from './program-fields.ts';

export {
  bytesOf,
  commandProgramSchema,
  containerProgramSchema,
  fieldsAlone,
  isForbiddenEnvName,
  programKindsSchema,
  programsOf,
  programOf,
  portEnvSchema,
  programSchema,
  type CommandFields,
  type ContainerConfig,
  type ReadinessConfig,
} from './program-fields.ts';

/**
 * How far programs must be kept from the drone. `namespaces`: PID and mount namespaces, a private /proc
 * and no new privileges. `own-user`: users of their own besides.
 */
export const ISOLATION_LEVELS = ['none', 'namespaces', 'own-user'] as const;
export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

const rangeOf = (numberSchema: z.ZodNumber) =>
  fieldsAlone({ from: numberSchema, to: numberSchema }).refine(
    ({ from, to }) => from <= to,
    'from must not be greater than to',
  );

/** The file, as JSON. */
export const droneFileSchema = fieldsAlone({
  droneId: z.string('is required, here or as LEASEHOLD_DRONE_ID').pipe(idSchema),
  controllerUrls: controllerUrlArray.optional(),
  stateDir: z.string().min(1).optional(),
  capacity: z.number().int().min(0).max(100_000).default(100),
  /** Where backends listen and are reached. */
  host: z.string().min(1).max(200).default('127.0.0.1'),
  ports: rangeOf(portSchema).default({ from: 21_000, to: 29_999 }),
  /** The users of programs that name none. */
  users: rangeOf(userNumberSchema).optional(),
  /** The container engine, for programs that are containers. */
  engine: fieldsAlone({
    socket: z
      .string()
      .regex(/^\/[^\0]*$/u, 'must be the absolute path of a socket')
      .default('/var/run/docker.sock'),
  }).prefault({}),
  /** What the machine must provide, or the drone does not start. */
  isolation: fieldsAlone({ require: z.enum(ISOLATION_LEVELS).default('none') }).default({
    require: 'none',
  }),
  programs: programsOf(programSchema),
});

/** What differs between machines that share a config file; the file itself comes first. */
export const droneMachineSchema = z.object({
  /** May be the name of a machine: an id has no dots. */
  LEASEHOLD_DRONE_ID: z
    .string()
    .transform((name) => name.replaceAll('.', '-'))
    .pipe(idSchema)
    .optional(),
  LEASEHOLD_DRONE_HOST: z.string().max(200, 'must have at most 200 characters').optional(),
});

/** What a file says, with its defaults. */
export interface DroneFile extends Readonly<z.infer<typeof droneFileSchema>> {
  /** The user of a program, by its name. */
  readonly userOf: (program: string) => UserIds;
}

/** What a check of a file is made against. */
export interface DroneFilePlace {
  /** What the problems call it. */
  readonly file: string;
  readonly environment: Environment;
  readonly system?: UserSources | undefined;
}

/** Reads a file, see {@link parseDroneFile}. */
export function readDroneFile(place: DroneFilePlace): ParsedEnvironment<DroneFile> {
  let content: unknown;
  try {
    content = JSON.parse(readFileSync(place.file, 'utf8'));
  } catch (error) {
    const why = error instanceof SyntaxError ? `is not JSON: ${error.message}` : 'cannot be read';
    return { outcome: 'invalid', problems: [`${place.file}: ${why}`] };
  }
  return parseDroneFile(content, place);
}

const fieldsSchema = z.record(z.string(), z.unknown());

/** Checks the content of a file. Each problem begins with the name of the file or of a variable. */
export function parseDroneFile(
  content: unknown,
  { file, environment, system = systemUsers() }: DroneFilePlace,
): ParsedEnvironment<DroneFile> {
  const machine = parseEnvironment(droneMachineSchema, environment);
  const fields = fieldsSchema.safeParse(content);
  const ofMachine = machine.outcome === 'valid' ? fieldsOf(machine.values) : {};
  const parsed = droneFileSchema.safeParse(
    fields.success ? { ...ofMachine, ...fields.data } : content,
  );
  if (!parsed.success || machine.outcome === 'invalid') {
    const ofVariables = machine.outcome === 'invalid' ? machine.problems : [];
    const issues = parsed.error?.issues ?? [];
    return {
      outcome: 'invalid',
      problems: [...ofVariables, ...issues.map((issue) => `${file}: ${issueText(issue)}`)],
    };
  }
  const commands = Object.entries(parsed.data.programs).flatMap(([name, program]) =>
    program.kind === 'command' ? [[name, program] as const] : [],
  );
  const users = usersOf({ ...parsed.data, programs: Object.fromEntries(commands) }, system);
  const problems = [
    ...users.problems,
    ...networkProblems(parsed.data),
    ...warmProblems(parsed.data),
  ];
  return problems.length > 0
    ? { outcome: 'invalid', problems: problems.map((problem) => `${file}: ${problem}`) }
    : { outcome: 'valid', values: { ...parsed.data, userOf: (program) => users.of(program) } };
}

/** The folder of a drone's state. A relative one is taken from the folder of the process. */
export function droneStateDir(
  { stateDir, droneId }: { readonly stateDir?: string | undefined; readonly droneId: string },
  home: string,
): string {
  return path.resolve(stateDir ?? path.join(home, 'drones', droneId));
}

/** A problem of a file with its place, such as `programs.echo.command: must be a text`. */
export function issueText(issue: Pick<z.core.$ZodIssue, 'path' | 'message'>): string {
  const place = issue.path.map(String).join('.');
  return `${place === '' ? '(whole file)' : place}: ${issue.message}`;
}

/** As the file has it. */
function fieldsOf(machine: z.infer<typeof droneMachineSchema>): object {
  const { LEASEHOLD_DRONE_ID: droneId, LEASEHOLD_DRONE_HOST: host } = machine;
  return { ...(droneId === undefined ? {} : { droneId }), ...(host === undefined ? {} : { host }) };
}

/** A published port is bound to an address, and a name has none of its own. */
function networkProblems({
  host,
  programs,
}: Pick<z.infer<typeof droneFileSchema>, 'host' | 'programs'>): string[] {
  if (net.isIP(host) !== 0) return [];
  return Object.entries(programs).flatMap(([name, program]) =>
    program.kind === 'container' && program.network === 'bridge'
      ? [`host: must be an IP address, because programs.${name} publishes its port on it`]
      : [],
  );
}

/** Warm processes count as backends do, and each has a port of its own. */
function warmProblems({
  capacity,
  programs,
}: Pick<z.infer<typeof droneFileSchema>, 'capacity' | 'programs'>): string[] {
  const kept = Object.entries(programs).flatMap(([name, program]) =>
    program.kind === 'command' && program.warm > 0 ? [[name, program] as const] : [],
  );
  const ofOne = kept.flatMap(([name, { warm, port, resources }]) => {
    const place = `programs.${name}.warm`;
    const most = resources?.instancesMax ?? warm;
    return [
      ...(port === 'auto' ? [] : [`${place}: is not possible with a fixed port`]),
      ...(warm > most ? [`${place}: must be at most its instancesMax, ${String(most)}`] : []),
    ];
  });
  const sum = kept.reduce((total, [, { warm }]) => total + warm, 0);
  if (sum <= capacity) return ofOne;
  const all = kept.map(([name]) => `programs.${name}.warm`).join(', ');
  return [...ofOne, `${all}: must together be at most the capacity, ${String(capacity)}`];
}

// The users that programs run as: the one that the configuration names, or else one of a range, by
// the hash of the program's name. So a program keeps its user over restarts, two programs have
// different ones, and nobody has to create them first.

/** A user of this machine, and its group. */
export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** Whole numbers, both included. */
interface UserRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Numbers that no distribution, container runtime or directory service gives out by itself: above the ranges
 * of subordinate users and of SSSD, below the largest number that a signed integer holds.
 */
const USUAL_RANGE: UserRange = { from: 2_100_000_000, to: 2_100_999_999 };
/** For a user namespace with only the usual 65,536: what systemd gives to dynamic users. */
const SMALL_RANGE: UserRange = { from: 61_184, to: 65_519 };

export interface UserSources {
  /** As `/etc/passwd`. */
  readonly accounts: string;
  /** As `/proc/self/uid_map`: the users that there are in this user namespace. */
  readonly map: string;
  /** Whether the drone may change users at all. */
  readonly isRoot: boolean;
}

/** The accounts of this machine; names of a directory service are not among them. */
export function systemUsers(): UserSources {
  return {
    accounts: read('/etc/passwd'),
    map: read('/proc/self/uid_map'),
    isRoot: process.getuid?.() === 0,
  };
}

/** The user of each program, and what is wrong with them. */
function usersOf(
  {
    users,
    programs,
  }: {
    readonly users?: UserRange | undefined;
    readonly programs: Readonly<Record<string, { readonly user?: string | number | undefined }>>;
  },
  system: UserSources,
): { readonly problems: readonly string[]; of(program: string): UserIds } {
  const range = users ?? defaultUserRange(system);
  const problems: string[] = [];
  const byProgram = new Map<string, UserIds>();
  const derived = new Map<number, string>();
  for (const [name, { user: wanted }] of Object.entries(programs)) {
    const user = wanted === undefined ? derivedUser(name, range) : namedUser(wanted, system);
    const place = `programs.${name}.user`;
    if (user === undefined) {
      problems.push(`${place}: this machine has no account ${String(wanted)}; a number needs none`);
      continue;
    }
    byProgram.set(name, user);
    // A drone that is not root runs everything as its own user.
    if (wanted === undefined && !system.isRoot) continue;
    const problem = userProblem(user, system, wanted === undefined);
    if (problem !== undefined) problems.push(`${place}: ${problem}`);
    if (wanted !== undefined) continue;
    const other = derived.get(user.uid);
    if (other !== undefined) {
      problems.push(`${place}: would be that of ${other}; name a \`user\` for one of them`);
    }
    derived.set(user.uid, name);
  }
  return {
    problems,
    of: (program) => byProgram.get(program) ?? derivedUser(program, range),
  };
}

/** The range that users of programs are taken from where the configuration names none. */
function defaultUserRange({ map }: Pick<UserSources, 'map'>): UserRange {
  return isMapped(USUAL_RANGE.to, map) ? USUAL_RANGE : SMALL_RANGE;
}

/** The user of a program by its name alone. */
function derivedUser(program: string, { from, to }: UserRange): UserIds {
  const hash = createHash('sha256').update(`leasehold.program-user\0${program}`).digest();
  const id = from + (hash.readUIntBE(0, 6) % (to - from + 1));
  return { uid: id, gid: id };
}

/** The user that a configuration names: `name`, `uid` or `uid:gid`. Undefined when none exists. */
function namedUser(
  wanted: string | number,
  { accounts }: Pick<UserSources, 'accounts'>,
): UserIds | undefined {
  const [user = '', group] = String(wanted).split(':');
  const account = accountsOf(accounts).find(
    ({ name, uid }) => name === user || String(uid) === user,
  );
  const uid = account?.uid ?? (/^\d+$/u.test(user) ? Number(user) : undefined);
  if (uid === undefined) return undefined;
  return { uid, gid: group === undefined ? (account?.gid ?? uid) : Number(group) };
}

/** Why a program may not run as this user; undefined when it may. */
function userProblem(
  { uid, gid }: UserIds,
  { map, accounts }: UserSources,
  isDerived: boolean,
): string | undefined {
  if (uid === 0 || gid === 0) return 'must not be root';
  if (!isMapped(uid, map)) {
    return `is ${String(uid)}, and this machine has no such user; choose \`users\` from ${mappedText(map)}`;
  }
  const account = accountsOf(accounts).find((one) => one.uid === uid);
  if (isDerived && account !== undefined) {
    return `would be ${account.name}, who has an account; name a \`user\`, or choose other \`users\``;
  }
  return undefined;
}

interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

function accountsOf(text: string): Account[] {
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    if (name === undefined || uid === undefined || gid === undefined) return [];
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}

/** Where there is no map, there is no user namespace either. */
function isMapped(uid: number, map: string): boolean {
  const ranges = rangesOf(map);
  return ranges.length === 0 || ranges.some(({ from, to }) => from <= uid && uid <= to);
}

function rangesOf(map: string): UserRange[] {
  return map.split('\n').flatMap((line) => {
    const [from, , count] = line.trim().split(/\s+/u).map(Number);
    return from === undefined || count === undefined ? [] : [{ from, to: from + count - 1 }];
  });
}

function mappedText(map: string): string {
  return rangesOf(map)
    .map(({ from, to }) => `${String(from)} to ${String(to)}`)
    .join(', ');
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
