/**
 * `leasehold.config.json`: what `leasehold up` runs, for a folder of sources. Its schema for editors is in
 * `apps/cli/leasehold.config.schema.json`, written by `npm run docs:config`.
 */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import {
  commandProgramSchema,
  containerProgramSchema,
  fieldsAlone,
  issueText,
  programOf,
  programsOf,
} from '@leasehold/api/drone-file';
import { z } from 'zod';
import { CliFailure, EXIT_CODES, usageFailure } from '../failures.ts';
import { splitCommand } from './local-program.ts';

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
export interface UpFile extends Readonly<z.infer<typeof schema>> {
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
