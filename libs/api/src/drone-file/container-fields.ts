/** A program that is a container, in a drone's config file. */
import { z } from 'zod';

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
export const sizeSchema = z
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
export const containerFields = {
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
