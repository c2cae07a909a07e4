/** The programs of a drone's config file: commands of this machine, and containers. */
import { LIMITS } from '@leasehold/keys-core';
import { z } from 'zod';
import { envNameSchema, idSchema } from '../contract/common.ts';
import { idleStopSchema, lifetimeSchema } from '../contract/keys.ts';

/** The least that an engine gives to a container. */
const MEMORY_BYTES_MIN = 6 * 1_024 * 1_024;
const UNITS = { b: 1, k: 1_024, m: 1_024 ** 2, g: 1_024 ** 3 } as const;

/** What Docker gives to containers by default: everything beyond it opens the machine to them. */
const CAPABILITIES = [
  'AUDIT_WRITE',
  'CHOWN',
  'DAC_OVERRIDE',
  'FOWNER',
  'FSETID',
  'KILL',
  'MKNOD',
  'NET_BIND_SERVICE',
  'NET_RAW',
  'SETFCAP',
  'SETGID',
  'SETPCAP',
  'SETUID',
  'SYS_CHROOT',
] as const;

const imageSchema = z
  .string()
  .max(512)
  .regex(
    /^[a-zA-Z0-9][a-zA-Z0-9._:/-]*(?:@sha256:[0-9a-f]{64})?$/u,
    'must be the name of an image, such as registry.example/room:1.2 or one with @sha256:…',
  );

/** The most that is exact as a number of bytes. */
const SIZE_BYTES_MAX = 8_388_607 * UNITS.g;

/** A size with a unit, of one byte at least. */
const sizeSchema = z
  .string()
  .regex(/^\d{1,15}[bkmg]$/u, {
    error: 'must be a number with a unit b, k, m or g, such as "512m"',
    abort: true,
  })
  .refine((text) => bytesOf(text) > 0 && bytesOf(text) <= SIZE_BYTES_MAX, {
    error: 'must be from "1b" to "8388607g"',
    abort: true,
  });
const memorySchema = sizeSchema.refine(
  (text) => bytesOf(text) >= MEMORY_BYTES_MIN,
  'must be at least "6m"',
);

const absolutePathSchema = z.string().regex(/^\/[^\0]*$/u, 'must be an absolute path');

const ulimitSchema = z.union([
  z.number().int().min(0),
  z.strictObject({ soft: z.number().int().min(0), hard: z.number().int().min(0) }),
]);

/** Where user and password for the registry are; never in the configuration itself. */
const credentialsSchema = z.union(
  [
    /** Relative to the folder in which the drone was started. */
    z.strictObject({ file: z.string().min(1) }),
    z.strictObject({ env: z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/u) }),
  ],
  'must be { "file": PATH } or { "env": NAME of a variable of the drone }',
);

const LABEL = /^[a-zA-Z0-9][a-zA-Z0-9._/-]{0,127}$/u;

function checkLabels(labels: Readonly<Record<string, string>>, context: z.RefinementCtx): void {
  for (const name of Object.keys(labels)) {
    const problem = name.startsWith('leasehold.')
      ? 'must not begin with "leasehold."'
      : LABEL.test(name)
        ? undefined
        : 'must be a name of up to 128 letters, digits, ".", "_", "/" and "-"';
    if (problem !== undefined) context.addIssue({ code: 'custom', message: problem, path: [name] });
  }
}

/** The fields that only containers have. */
const containerFields = {
  image: imageSchema,
  /** In place of the image's entry point; `args` are in place of its command. */
  command: z.string().min(1).optional(),
  /** The folder in the container in which it starts; by default the image's. */
  cwd: absolutePathSchema.optional(),
  /** The user in the container; by default the image's. */
  user: z
    .string()
    .regex(
      /^[a-zA-Z0-9_][a-zA-Z0-9_.-]*(?::[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?$/u,
      'must be a user of the image, or numbers: "1000:1000"',
    )
    .optional(),
  pull: z.enum(['missing', 'always', 'never']).default('missing'),
  pullTimeoutMs: z
    .number()
    .int()
    .min(1_000)
    .max(60 * 60 * 1_000)
    .default(5 * 60 * 1_000),
  credentials: credentialsSchema.optional(),
  memory: memorySchema.default('512m'),
  /** Processors; a fraction is allowed. */
  cpus: z.number().min(0.01).max(1_024).default(1),
  pids: z.number().int().min(1).max(4_194_304).default(256),
  /** `bridge`: its own network, with one published port. `host`: the machine's. */
  network: z.enum(['bridge', 'host']).default('bridge'),
  /** The port inside, with `bridge`; by default the same number as outside. */
  containerPort: z.number().int().min(1).max(65_535).optional(),
  labels: z.record(z.string(), z.string().max(1_024)).superRefine(checkLabels).default({}),
  ulimits: z.record(z.string().regex(/^[a-z]{2,16}$/u), ulimitSchema).default({}),
  capabilities: z.array(z.enum(CAPABILITIES)).default([]),
  /** The image's files cannot be changed; /tmp can. */
  readOnly: z.boolean().default(false),
  /** The engine's small first process passes the stop signal on, also to a program without a handler. */
  init: z.boolean().default(true),
};

/** A size as a number of bytes. */
export function bytesOf(text: string): number {
  const unit = text.at(-1) as keyof typeof UNITS;
  return Number(text.slice(0, -1)) * UNITS[unit];
}

/** The largest that a warden takes. */
const USER_NUMBER_MAX = 2 ** 31 - 2;

const STOP_SIGNALS = ['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGHUP', 'SIGUSR1', 'SIGUSR2'] as const;

export const portSchema = z.number().int().min(1).max(65_535);
const durationMsSchema = z
  .number()
  .int()
  .min(1)
  .max(24 * 60 * 60 * 1_000);
/** The chain that starts a program would take a command of the form `NAME=value` for a variable. */
const commandSchema = z
  .string('must be a text: the `command` of a program, unless it has the `image` of a container')
  .min(1)
  .refine((value) => !value.includes('\0') && !value.includes('='), 'must not contain NUL or "="');

/** An object with these fields alone. The error about another one lists them. */
export function fieldsAlone<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  return z.strictObject(shape, {
    error: (issue) =>
      issue.code === 'unrecognized_keys'
        ? `has no field ${issue.keys.map((key) => `"${key}"`).join(', ')}; ` +
          `allowed are ${Object.keys(shape).join(', ')}`
        : undefined,
  });
}

const probeFields = {
  timeoutMs: durationMsSchema.default(300_000),
  intervalMs: durationMsSchema.default(100),
};
const readinessSchema = z
  .discriminatedUnion('type', [
    /** Ready as soon as it runs: for programs that take no connections. */
    fieldsAlone({ type: z.literal('none'), ...probeFields }),
    fieldsAlone({ type: z.literal('tcp'), ...probeFields }),
    fieldsAlone({
      type: z.literal('http'),
      path: z
        .string()
        .regex(/^\/[\x21-\x7e]*$/u, 'must begin with "/", and have no space: write %20')
        .default('/'),
      ...probeFields,
    }),
  ])
  .default({ type: 'tcp', timeoutMs: 300_000, intervalMs: 100 });

export const userNumberSchema = z.number().int().min(1).max(USER_NUMBER_MAX);

/** Values by names. The error about a name says what it may be. */
function recordOf<Value extends z.ZodType>(what: string, name: z.ZodString, value: Value) {
  return z.record(name, value, {
    error: (issue) =>
      issue.code === 'invalid_key'
        ? `the name of ${what} ${issue.issues[0]?.message ?? 'is not valid'}`
        : undefined,
  });
}

export const portEnvSchema = envNameSchema.refine(
  (name) => name === 'PORT' || !isForbiddenEnvName(name),
  'is set by Leasehold or makes a program load code: choose another name',
);

/** What every program has. */
const commonFields = {
  args: z.array(z.string()).max(LIMITS.backendArgsMax).default([]).describe('Its arguments.'),
  env: recordOf('a variable', envNameSchema, z.string())
    .default({})
    .describe('Variables of its environment.'),
  port: z
    .union([z.literal('auto'), portSchema])
    .default('auto')
    .describe('The port that it listens on: a free one of the drone, or a fixed one.'),
  portEnv: portEnvSchema
    .optional()
    .describe('The variable that has its port, besides PORT, which always has it.'),
  readiness: readinessSchema.describe('When a backend counts as ready.'),
  stopSignal: z.enum(STOP_SIGNALS).default('SIGTERM').describe('How it is told to stop.'),
  stopGraceMs: durationMsSchema
    .default(10_000)
    .describe('Milliseconds from the stop signal to SIGKILL.'),
  lifetimeLimitSeconds: lifetimeSchema
    .optional()
    .describe(
      'For how long a backend lives at most; a request may name less. By default for any time.',
    ),
  idleStopSeconds: idleStopSchema
    .optional()
    .describe(
      'A backend that nobody has used for so long is stopped; a request may name another time. By default never.',
    ),
  resources: fieldsAlone({
    instancesMax: z.number().int().min(1).describe('Backends of this program at once.'),
  })
    .optional()
    .describe('How many backends of it may run at once.'),
  allowArgs: z.boolean().default(false).describe('Whether a request may add arguments.'),
  allowEnv: z
    .array(
      envNameSchema.refine(
        (name) => !isForbiddenEnvName(name),
        'is set by Leasehold or makes a program load code, and cannot be allowed',
      ),
    )
    .max(LIMITS.backendEnvMax)
    .default([])
    .describe('Variables that a request may set.'),
};

/** A command of this machine. */
export const commandProgramSchema = fieldsAlone({
  command: commandSchema.describe('What is run: a path, or a name that is looked for in PATH.'),
  user: z
    .union([
      userNumberSchema,
      z
        .string()
        .regex(
          /^(?:[a-z_][a-z0-9_-]{0,31}|\d{1,10}(?::\d{1,10})?)$/u,
          'must be a name, a number, or two numbers as `uid:gid`',
        ),
    ])
    .optional()
    .describe('The user it runs as, under a drone that runs as root; by default one of `users`.'),
  /**
   * Relative to the folder of the config file, which is also the default; where that folder is
   * hidden from programs, the default is the program's folder of data.
   */
  cwd: z
    .string()
    .min(1)
    .optional()
    .describe('The folder it runs in; by default that of this file.'),
  reads: z
    .array(z.string().regex(/^\/[^\0]*$/u, 'must be an absolute path'))
    .max(100)
    .default([])
    .describe(
      'Folders that it reads besides its own, where a folder above is hidden from its user.',
    ),
  memoryMax: sizeSchema
    .default('2g')
    .describe('The memory that one backend may use, all of its processes together.'),
  // The shell that starts a program is one.
  pidsMax: z
    .number()
    .int()
    .min(2)
    .max(4_194_304)
    .default(1_024)
    .describe('Processes and threads of one backend.'),
  cpuMax: z
    .number()
    .min(0.01)
    .max(1_024)
    .optional()
    .describe('Processors of one backend; a fraction is allowed. By default as many as there are.'),
  warm: z
    .number()
    .int()
    .min(0)
    .max(LIMITS.capacityMax)
    .default(0)
    .describe('Processes that are kept running without a key, for the next connects to claim.'),
  fileSizeMax: sizeSchema.default('16g').describe('The length of each file that it writes.'),
  ...commonFields,
});

/** A container. */
export const containerProgramSchema = fieldsAlone({ ...containerFields, ...commonFields });

export type CommandFields = { readonly kind: 'command' } & z.infer<typeof commandProgramSchema>;
/** A container as the drone runs it. */
export type ContainerConfig = { readonly kind: 'container' } & z.infer<
  typeof containerProgramSchema
>;
export type ReadinessConfig = z.infer<typeof readinessSchema>;

/** What one program may be, as an editor and a reader of the documentation see it. */
export const programKindsSchema = z.union([commandProgramSchema, containerProgramSchema]);

/**
 * One program: with an `image` it is a container, else a command. Its problems are reported as that kind's
 * alone.
 */
export function programOf<Command extends z.ZodType>(commandProgram: Command) {
  const container = containerProgramSchema.transform((program) => ({
    kind: 'container' as const,
    ...program,
  }));
  return z.unknown().transform((given, context): z.output<Command> | ContainerConfig => {
    const isContainer = typeof given === 'object' && given !== null && 'image' in given;
    if (isContainer && 'warm' in given) {
      const message = 'is not possible for a container, only for a command of the machine';
      context.issues.push({ code: 'custom', message, path: ['warm'], input: given });
      return z.NEVER;
    }
    const parsed = (isContainer ? container : commandProgram).safeParse(given);
    if (parsed.success) return parsed.data;
    for (const { message, path } of parsed.error.issues) {
      context.issues.push({ code: 'custom', message, path: [...path], input: given });
    }
    return z.NEVER;
  });
}

/** One program in the file of a drone. */
export const programSchema = programOf(
  commandProgramSchema.transform((program): CommandFields => ({ kind: 'command', ...program })),
);

/** Programs by their names, for a schema of one program. */
export function programsOf<Program extends z.ZodType>(program: Program) {
  return recordOf('a program', idSchema, program).refine(
    (programs) => Object.keys(programs).length <= LIMITS.programsPerDroneMax,
    `must be at most ${String(LIMITS.programsPerDroneMax)}`,
  );
}

/**
 * Variables that make a program load code, run commands, or look for its data elsewhere: those
 * that the C library ignores for privileged programs, those that sudo removes, and those of common
 * interpreters and tools.
 */
const FORBIDDEN = [
  // Leasehold's own.
  /^(?:LEASEHOLD_.*|PORT|PATH|HOME|TMPDIR)$/u,
  // The loader and the C library.
  /^(?:LD_.*|_RLD.*|DYLD_.*|SHLIB_PATH|LIBPATH|GLIBC_TUNABLES|MALLOC_.*|GCONV_PATH|GETCONF_DIR)$/u,
  /^(?:LOCPATH|NLSPATH|PATH_LOCALE|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_HOST_CONF)$/u,
  /^(?:NIS_PATH|TZDIR|TERMINFO.*|TERMPATH|TERMCAP|KRB5_.*|OPENSSL_.*|SSLKEYLOGFILE)$/u,
  // Shells.
  /^(?:ENV|BASH_ENV|_*BASH_FUNC.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|GLOBIGNORE)$/u,
  /^(?:FPATH|ZDOTDIR|NULLCMD|READNULLCMD|TMPPREFIX|SHELL|INPUTRC|FCEDIT|HISTFILE)$/u,
  // Interpreters and runtimes.
  /^(?:PERL.*|PYTHON.*|RUBY.*|GEM_.*|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*|TCLLIBPATH)$/u,
  /^(?:NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|REPL_.*|V8_COVERAGE|REDIRECT_WARNINGS)|DENO_.*|BUN_.*)$/u,
  /^(?:_?JAVA_.*|JDK_JAVA_OPTIONS|CLASSPATH|JULIA_.*|R_.*|ERL_.*|ELIXIR_.*|GUILE_.*|GHCRTS)$/u,
  /^(?:DOTNET_.*|COMPLUS_.*|CORECLR_.*|MONO_.*|GODEBUG|GOFLAGS|RUSTC_.*|CARGO_.*)$/iu,
  // Tools that others run, and what they run in turn.
  /^(?:GIT_.*|SSH_.*|SUDO_.*|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|LESS(?:OPEN|CLOSE)|AWK.*PATH)$/u,
  /^(?:npm_config_.*|YARN_.*|PIP_.*|MAKEFLAGS|EMACSLOADPATH|XDG_.*|GTK_.*|QT_.*|GST_.*)$/iu,
];

/** Whether no request may set a variable, whatever a program's configuration allows. */
export function isForbiddenEnvName(name: string): boolean {
  return FORBIDDEN.some((names) => names.test(name));
}
