/**
 * The config file of a drone: which programs it offers, and how they are run. Drones read it, and
 * `leasehold up` checks and writes it. All problems are listed at once.
 */
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
import { systemUsers, usersOf, type UserIds, type UserSources } from './program-users.ts';

export { bytesOf } from './container-fields.ts';
export {
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
export { systemUsers, type UserIds, type UserSources } from './program-users.ts';

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
  const problems = [...users.problems, ...networkProblems(parsed.data)];
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
