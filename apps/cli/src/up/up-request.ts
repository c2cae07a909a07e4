/**
 * What a person wants of `leasehold up`: its options win over `leasehold.config.json`. Everything that
 * can be wrong in either is found here, before anything is started or written.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { envNameSchema, idSchema } from '@leasehold/api/contract';
import {
  commandProgramSchema,
  containerProgramSchema,
  fieldsAlone,
  issueText,
  portEnvSchema,
  programOf,
  programsOf,
} from '@leasehold/api/drone-file';
import { CliFailure, EXIT_CODES, usageFailure } from '../failures.ts';
import { type LocalPlace, type LocalProgram, locate, splitCommand } from './local-program.ts';

// `leasehold.config.json`: what `leasehold up` runs, for a folder of sources. Its schema for editors is in
// `apps/cli/leasehold.config.schema.json`, written by `npm run docs:config`.

export const UP_FILE_NAME = 'leasehold.config.json';

/** A command line as on the command line, or with `args` the command alone. */
const upCommandSchema = commandProgramSchema.extend({
  command: z
    .string('must be a text: the `command` of a program, unless it has the `image` of a container')
    .min(1)
    .describe(
      'What is run: "node server.mjs". Words are split as a shell splits them; with `args` it is the command alone.',
    ),
  cwd: z
    .string()
    .min(1)
    .optional()
    .describe('The folder it runs in, relative to this file; by default the folder of this file.'),
  watch: z
    .array(z.string().min(1))
    .min(1)
    .max(100)
    .optional()
    .describe(
      'Files and folders, relative to this file, whose change stops its backends, so that the next connect starts the new version. By default, with `watch` of the whole file, the scripts in its command.',
    ),
});

const upProgramSchema = programOf(
  upCommandSchema.transform((program, context) => {
    if (program.args.length > 0) return { kind: 'command' as const, ...program };
    const split = splitCommand(program.command);
    if (split.outcome === 'words') {
      const [command = '', ...args] = split.words;
      const env = { ...split.env, ...program.env };
      return { kind: 'command' as const, ...program, command, args, env };
    }
    context.addIssue({ code: 'custom', message: split.problem, path: ['command'] });
    return z.NEVER;
  }),
);

const portSchema = z.number().int().min(0).max(65_535).optional();

function upFileSchema<Program extends z.ZodType>(program: Program) {
  return fieldsAlone({
    $schema: z.string().optional().describe('Where editors find what may be in this file.'),
    programs: programsOf(program)
      .optional()
      .describe('The programs that the drone offers, by the name that `connect` uses.'),
    droneConfig: z
      .string()
      .min(1)
      .optional()
      .describe("A drone's config file, relative to this one, in place of `programs`."),
    preset: z
      .enum(['standard', 'fast'])
      .optional()
      .describe('The deadlines of keys: `fast` frees the key of a dead holder in seconds.'),
    port: portSchema.describe('Where the controller listens; 0 is any free port.'),
    console: z.boolean().optional().describe('Whether the console is started.'),
    consolePort: portSchema.describe('Where the console listens; 0 is any free port.'),
    gateway: z.boolean().optional().describe('Whether the gateway is started.'),
    gatewayPort: portSchema.describe(
      'Where the gateway listens, through which browsers reach keys; 0 is any free port.',
    ),
    watch: z
      .boolean()
      .optional()
      .describe(
        'Whether a change of a program stops its backends, so that the next connect starts the new version.',
      ),
  });
}

const schema = upFileSchema(upProgramSchema).refine(
  ({ programs, droneConfig }) => programs === undefined || droneConfig === undefined,
  { path: ['droneConfig'], message: 'is used as it is: leave out `programs`, or this' },
);

/** What the file says. */
interface UpFile extends Readonly<z.infer<typeof schema>> {
  readonly path: string;
  readonly folder: string;
  /** The programs as they are written there, without defaults. */
  readonly written: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/**
 * Reads a file, or that of a folder if it has one.
 * @throws {CliFailure} `cli.usage` when the file that is named is not there; `config.invalid` with every
 * problem at once.
 */
export function readUpFile(named: string | undefined, folder: string): UpFile | undefined {
  const file = path.resolve(folder, named ?? UP_FILE_NAME);
  if (!existsSync(file)) {
    if (named === undefined) return undefined;
    throw usageFailure(`--config: ${file} does not exist.`);
  }
  const content = readJson(file);
  const parsed = schema.safeParse(content);
  if (!parsed.success) throw invalid(file, parsed.error.issues.map(issueText));
  const { programs = {} } = content as { programs?: UpFile['written'] };
  return { ...parsed.data, path: file, folder: path.dirname(file), written: programs };
}

/** The schema as it is published, for editors. */
export function upFileJsonSchema(): Record<string, unknown> {
  const kinds = upFileSchema(z.union([upCommandSchema, containerProgramSchema]));
  return {
    title: 'What `leasehold up` runs',
    // The version that all editors know.
    ...z.toJSONSchema(kinds, { target: 'draft-7', io: 'input', unrepresentable: 'any' }),
  };
}

function readJson(file: string): unknown {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    const problem = error instanceof SyntaxError ? `is not JSON: ${message}` : message;
    throw invalid(file, [problem]);
  }
}

/** The failure of a file that is not valid. */
export function invalid(file: string, problems: readonly string[]): CliFailure {
  const list = problems.map((problem) => `\n  ${problem}`).join('');
  return new CliFailure(`${file} is not valid:${list}`, {
    code: 'config.invalid',
    exitCode: EXIT_CODES.usage,
    hint: 'Nothing was started.',
    details: { file, problems },
  });
}

/** The options of `leasehold up`, as they were typed. */
export interface UpOptions {
  readonly preset?: string;
  readonly port?: string;
  readonly console?: boolean;
  readonly consolePort?: string;
  readonly gateway?: boolean;
  readonly gatewayPort?: string;
  readonly config?: string;
  readonly program?: readonly string[];
  readonly cwd?: string;
  readonly env?: readonly string[];
  readonly portEnv?: string;
  readonly warm?: number;
  readonly forgetProgram?: readonly string[];
  readonly droneConfig?: string;
  readonly watch?: boolean;
  readonly watchPath?: readonly string[];
}

/** A program's fields in the file of a drone. */
type ProgramFields = Readonly<Record<string, unknown>>;
export type ProgramsByName = Readonly<Record<string, ProgramFields>>;

export interface UpRequest {
  /** Variables that the configuration is read from. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly withConsole: boolean;
  readonly withGateway: boolean;
  /** Of `--program`: kept for later runs. */
  readonly given: ProgramsByName;
  /** Of the file, which is read again each time. */
  readonly ofFile: { readonly name: string; readonly programs: ProgramsByName };
  readonly forget: readonly string[];
  /** A drone's own file, in place of all programs; null for none. */
  readonly droneConfig: string | null;
  /** null: nothing is watched. */
  readonly watch: Watched | null;
}

/** What is watched: `paths` for every program, or else those of its own, or else its scripts. */
export interface Watched {
  readonly paths: readonly string[];
  readonly ofPrograms: Readonly<Record<string, readonly string[]>>;
  /** Whether the scripts of a program without paths are watched. */
  readonly scripts: boolean;
}

interface UpRequestPlace {
  /** Where `leasehold up` was called. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * @throws {CliFailure} `cli.usage` for an option, `config.invalid` for the file, `up.cannot_start` with
 * every program that cannot be found.
 */
export function readUpRequest(options: UpOptions, place: UpRequestPlace): UpRequest {
  const { folder, environment } = place;
  const { PATH: searchPath = '' } = environment;
  const typed = typedPrograms(options);
  const forget = forgotten(options, typed);
  const file = readUpFile(options.config, folder);
  const droneConfig = droneConfigOf(options, file, folder);
  const watch = watchOf(options, file, folder);
  const finder = new ProgramFinder();
  const given = finder.find(typed, { folder, searchPath }, (name) => `--program ${name}`);
  const isUsed = file !== undefined && droneConfig === undefined;
  const ofFile = isUsed ? finder.findOfFile(file, searchPath) : {};
  finder.findWatched(watch);
  finder.done();
  return {
    environment: { ...variablesOfFile(file), ...set(environment), ...variablesOf(options) },
    withConsole: options.console ?? file?.console ?? true,
    withGateway: options.gateway ?? file?.gateway ?? true,
    given,
    ofFile: { name: nameOf(file, folder), programs: ofFile },
    forget,
    droneConfig: droneConfig ?? null,
    watch,
  };
}

/** Finds the programs of this machine, and collects what is wrong with them. */
export class ProgramFinder {
  readonly #problems: string[] = [];

  /** @param placeOf how problems name a program. */
  find(
    programs: Readonly<Record<string, LocalProgram>>,
    place: LocalPlace,
    placeOf: (name: string, field: string) => string,
  ): Record<string, LocalProgram> {
    return Object.fromEntries(
      Object.entries(programs).map(([name, given]) => {
        const { program, problems } = locate(given, place);
        for (const { field, problem } of problems) {
          this.#problems.push(`${placeOf(name, field)}: ${problem}`);
        }
        return [name, program];
      }),
    );
  }

  findOfFile(file: UpFile, searchPath: string): ProgramsByName {
    const found = Object.entries(file.programs ?? {}).map(
      ([name, program]): [string, ProgramFields] => {
        const written = file.written[name] ?? {};
        if (program.kind === 'container') return [name, written];
        const { command, args, env } = program;
        // No field of a drone's file.
        const fields = Object.entries(written).filter(([field]) => field !== 'watch');
        const own = { ...Object.fromEntries(fields), command, args, env, ...cwdOf(written) };
        const local = { [name]: own };
        const placeOf = (_name: string, field: string) =>
          `${path.basename(file.path)}: programs.${name}.${field}`;
        return [name, this.find(local, { folder: file.folder, searchPath }, placeOf)[name] ?? {}];
      },
    );
    return Object.fromEntries(found);
  }

  findWatched(watch: Watched | null): void {
    const { paths = [], ofPrograms = {} } = watch ?? {};
    const named = [...paths, ...Object.values(ofPrograms).flat()];
    const missing = named.filter((file) => !existsSync(file));
    this.#problems.push(...missing.map((file) => `what to watch: ${file} does not exist`));
  }

  /** @throws {CliFailure} `up.cannot_start` when something was wrong. */
  done(hint?: string): void {
    const problems = this.#problems;
    if (problems.length === 0) return;
    throw new CliFailure(`Nothing was started:${problems.map((text) => `\n  ${text}`).join('')}`, {
      code: 'up.cannot_start',
      exitCode: EXIT_CODES.refused,
      details: { problems },
      hint,
    });
  }
}

function cwdOf({ cwd }: Readonly<Record<string, unknown>>): { cwd?: string } {
  return typeof cwd === 'string' ? { cwd } : {};
}

/** How people know the file: by its name where they are. */
function nameOf(file: UpFile | undefined, folder: string): string {
  if (file === undefined) return UP_FILE_NAME;
  const relative = path.relative(folder, file.path);
  return relative.startsWith('..') ? file.path : relative;
}

/** The programs of `--program`, with the other options that are about them. */
function typedPrograms(options: UpOptions): Record<string, LocalProgram> {
  const { program: texts = [], cwd, env: variables = [], portEnv, warm } = options;
  if (texts.length === 0) {
    refuseAlone({
      '--cwd': cwd,
      '--env': variables[0],
      '--port-env': portEnv,
      '--warm': warm?.toString(),
    });
    return {};
  }
  if (cwd === '') throw usageFailure('--cwd must be a folder, not empty.');
  if (portEnv !== undefined) checkName('--port-env', portEnv, portEnvSchema);
  const env = Object.fromEntries(variables.map(variableOf));
  const given = givenFields(options);
  const programs: Record<string, LocalProgram> = {};
  for (const text of texts) {
    const { name, command } = splitProgram(text);
    if (Object.hasOwn(programs, name)) {
      throw usageFailure(`--program ${name} is given twice.`);
    }
    const split = splitCommand(command);
    if (split.outcome === 'invalid') {
      throw usageFailure(`--program ${name}: the command ${split.problem}.`);
    }
    const [first = '', ...args] = split.words;
    programs[name] = {
      command: first,
      args,
      env: { ...env, ...split.env },
      ...given,
    };
  }
  return programs;
}

function givenFields({ cwd, portEnv, warm }: UpOptions): Partial<LocalProgram> {
  return {
    ...(cwd === undefined ? {} : { cwd }),
    ...(portEnv === undefined ? {} : { portEnv }),
    ...(warm === undefined ? {} : { warm }),
  };
}

/** @throws {CliFailure} `cli.usage` when an option about programs is given without one. */
function refuseAlone(options: Readonly<Record<string, string | undefined>>): void {
  for (const [option, value] of Object.entries(options)) {
    if (value === undefined) continue;
    throw usageFailure(`${option} is about a program: give --program NAME=COMMAND too.`);
  }
}

function forgotten({ forgetProgram = [] }: UpOptions, typed: object): readonly string[] {
  const both = forgetProgram.find((name) => Object.hasOwn(typed, name));
  if (both === undefined) return forgetProgram;
  throw usageFailure(`--forget-program ${both}: --program gives it at the same time.`);
}

function splitProgram(text: string): { name: string; command: string } {
  const at = text.indexOf('=');
  if (at < 1) {
    throw usageFailure(
      `--program must be NAME=COMMAND, as in echo='node echo.mjs', not "${text}".`,
    );
  }
  const name = text.slice(0, at);
  checkName('--program', name, idSchema);
  return { name, command: text.slice(at + 1) };
}

function variableOf(text: string): [string, string] {
  const at = text.indexOf('=');
  if (at < 1) throw usageFailure(`--env must be NAME=VALUE, not "${text}".`);
  const name = text.slice(0, at);
  checkName('--env', name, envNameSchema);
  return [name, text.slice(at + 1)];
}

function checkName(option: string, name: string, schema: typeof idSchema): void {
  const message = schema.safeParse(name).error?.issues[0]?.message;
  if (message !== undefined) throw usageFailure(`${option}: the name "${name}" ${message}.`);
}

function droneConfigOf(
  { droneConfig, program = [], forgetProgram = [] }: UpOptions,
  file: UpFile | undefined,
  folder: string,
): string | undefined {
  const named =
    droneConfig === undefined
      ? file?.droneConfig && path.resolve(file.folder, file.droneConfig)
      : path.resolve(folder, droneConfig);
  if (named !== undefined && program.length + forgetProgram.length > 0) {
    throw usageFailure(
      `--program and --forget-program do not change ${named}, which is used as it is.`,
      'Change its `programs`, or leave out the drone config.',
    );
  }
  return named;
}

function watchOf(
  { watch, watchPath = [] }: UpOptions,
  file: UpFile | undefined,
  folder: string,
): UpRequest['watch'] {
  if (watch === false) {
    if (watchPath.length === 0) return null;
    throw usageFailure('--no-watch and --watch-path exclude each other.');
  }
  const paths = watchPath.map((name) => path.resolve(folder, name));
  const ofPrograms = ownPaths(file);
  const scripts = watch ?? file?.watch ?? false;
  const isOn = scripts || paths.length > 0 || Object.keys(ofPrograms).length > 0;
  return isOn ? { paths, ofPrograms, scripts } : null;
}

/** What the file names for its programs, unless it turns that off. */
function ownPaths(file: UpFile | undefined): Record<string, string[]> {
  if (file === undefined || file.watch === false) return {};
  const found = Object.entries(file.programs ?? {}).map(([name, program]): [string, string[]] => {
    const named = program.kind === 'command' ? (program.watch ?? []) : [];
    return [name, named.map((one) => path.resolve(file.folder, one))];
  });
  return Object.fromEntries(found.filter(([, paths]) => paths.length > 0));
}

/** Shells and unit files leave variables that are set to nothing. */
function set(environment: UpRequestPlace['environment']): UpRequest['environment'] {
  return Object.fromEntries(Object.entries(environment).filter(([, value]) => value !== ''));
}

function variablesOf({
  preset,
  port,
  consolePort,
  gatewayPort,
}: UpOptions): UpRequest['environment'] {
  return {
    ...(preset === undefined ? {} : { LEASEHOLD_PRESET: preset }),
    ...(port === undefined ? {} : { LEASEHOLD_PORT: port }),
    ...(consolePort === undefined ? {} : { LEASEHOLD_CONSOLE_PORT: consolePort }),
    ...(gatewayPort === undefined ? {} : { LEASEHOLD_GATEWAY_PORT: gatewayPort }),
  };
}

function variablesOfFile(file: UpFile | undefined): UpRequest['environment'] {
  return {
    LEASEHOLD_PRESET: file?.preset,
    LEASEHOLD_PORT: file?.port?.toString(),
    LEASEHOLD_CONSOLE_PORT: file?.consolePort?.toString(),
    LEASEHOLD_GATEWAY_PORT: file?.gatewayPort?.toString(),
  };
}
