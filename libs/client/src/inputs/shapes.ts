/** The inputs of this library, by the rules of the contract. */
import {
  LIMITS,
  isId,
  joinNamespace,
  LeaseError,
  nameProblem,
  namespaceProblem,
  reservationKeyProblem,
} from '@leasehold/keys-core';
import { LeaseholdCallError } from '../transport/call-errors.ts';
import {
  abortSignal,
  assertInput,
  callback,
  comment,
  datacenter,
  fields,
  flag,
  holder,
  listOf,
  matching,
  oneOf,
  optional,
  reason,
  rule,
  text,
  whole,
  type Check,
} from './checks.ts';

const name: Check = rule((value) => nameProblem(value as string));

/** Milliseconds of a lease. Out of range it has a code of its own, also at the controller. */
const ttlMs: Check = rule((value) =>
  Number.isInteger(value) ? undefined : 'must be a whole number of milliseconds',
);

const waitMs: Check = whole(0, LIMITS.waitMsMax);

const namespaceSegments: Check = rule((value) => {
  if (!Array.isArray(value)) return 'must be a list of strings';
  try {
    joinNamespace(value as string[]);
    return undefined;
  } catch (error) {
    if (error instanceof LeaseError) return error.message.replace(/^namespace /u, '');
    throw error;
  }
});

const cancel = { signal: optional(abortSignal) };

const attempt = {
  ...cancel,
  comment: optional(comment),
  holder: optional(holder),
  datacenter: optional(datacenter),
};

const definition = fields({
  ttlMs: optional(ttlMs),
  waitMs: optional(waitMs),
  description: optional(comment),
});

const acquiring = fields({ ...attempt, ttlMs: optional(ttlMs), waitMs: optional(waitMs) });

const environment = fields({
  ...attempt,
  action: text({ bytesMin: 1, bytesMax: LIMITS.tagBytesMax }),
  durationMs: optional(ttlMs),
  renew: optional(flag),
});

const environmentWork = fields({ veto: optional(callback), record: callback });

/** @throws {LeaseholdCallError} `request.invalid`. */
export function assertDefinition(namespace: readonly string[], options: unknown): void {
  assertInput(namespaceSegments, namespace, 'namespace');
  assertInput(definition, options, '');
}

/** @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`. */
export function assertAcquire(key: string, options: { readonly ttlMs?: number | undefined }): void {
  assertInput(name, key, 'key');
  assertInput(acquiring, options, '');
  assertTtlRange(options.ttlMs);
}

/** @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`. */
export function assertEnvironment(
  segments: readonly string[],
  options: { readonly durationMs?: number | undefined },
): void {
  assertInput(listOf(rule(stringProblem)), segments, 'environment');
  assertInput(namespaceSegments, segments.slice(0, -1), 'environment');
  assertInput(name, segments.at(-1) ?? '', 'environment');
  assertInput(environment, options, '');
  assertTtlRange(options.durationMs);
}

/** @throws {LeaseholdCallError} `request.invalid`. */
export function assertEnvironmentWork(work: unknown): void {
  assertInput(environmentWork, work, '');
}

/** @throws {LeaseholdCallError} `request.invalid`. */
export function assertWork(work: unknown): void {
  assertInput(callback, work, 'work');
}

function assertTtlRange(given: number | undefined): void {
  if (given === undefined || (given >= LIMITS.ttlMsMin && given <= LIMITS.ttlMsMax)) return;
  throw new LeaseholdCallError('lease.ttl_out_of_range', { details: { ttlMs: given } });
}

function stringProblem(value: unknown): string | undefined {
  return typeof value === 'string' ? undefined : 'must be a string';
}

const idText = matching(isId, 'must be 1 to 64 of a-z, 0-9 and "-", not at the ends');

const environmentVariables: Check = (value, field) => {
  const isRecord =
    typeof value === 'object' &&
    value !== null &&
    [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null);
  if (!isRecord) return { field, problem: 'must be an object' };
  const found = Object.entries(value);
  if (found.length > LIMITS.backendEnvMax) {
    return { field, problem: `must have at most ${String(LIMITS.backendEnvMax)} entries` };
  }
  const check = text({ bytesMax: LIMITS.backendEnvValueBytesMax, isControlAllowed: true });
  for (const [variable, content] of found) {
    const problem = check(content, `${field}.${variable}`);
    if (problem !== undefined) return problem;
  }
  return undefined;
};

/** `keys.connect`; the controller also checks what several fields are together. */
export const connectShape: Check = fields({
  key: optional(
    fields({
      name,
      namespace: optional(
        rule((value) => stringProblem(value) ?? namespaceProblem(value as string)),
      ),
      tag: optional(text({ bytesMax: LIMITS.tagBytesMax })),
    }),
  ),
  spawn: optional(
    fields({
      program: idText,
      args: optional(
        listOf(
          text({ bytesMax: LIMITS.backendArgBytesMax, isControlAllowed: true }),
          LIMITS.backendArgsMax,
        ),
      ),
      env: optional(environmentVariables),
      lifetimeLimitSeconds: optional(whole(1, LIMITS.lifetimeLimitSecondsMax)),
      datacenter: optional(datacenter),
    }),
  ),
  waitMs: optional(waitMs),
  waitFor: optional(oneOf('granted', 'ready')),
  idempotencyKey: optional(text({ bytesMin: 1, bytesMax: LIMITS.idempotencyKeyBytesMax })),
});

export const cancelShape: Check = fields(cancel);

export const reservationKey: Check = (value, field) =>
  listOf(rule(stringProblem))(value, field) ??
  rule((key) => reservationKeyProblem(key as string[]))(value, field);

export const reserveShape: Check = fields({ ...cancel, datacenter: optional(datacenter) });
export const resolveShape: Check = fields({ ...cancel, fresh: optional(flag) });
export const moveShape: Check = fields({ ...cancel, toDatacenter: datacenter, reason });
export const backendId: Check = text({ bytesMin: 1, bytesMax: LIMITS.nameBytesMax });

/** `createLeasehold`, besides `url`. */
export const clientShape: Check = fields({
  // It travels in a header.
  token: matching((token) => /^[\x20-\x7E]*$/u.test(token), 'must be a string of ASCII'),
  transport: optional(oneOf('ws', 'http')),
  holder: optional(holder),
  clientName: optional(text({ bytesMax: LIMITS.nameBytesMax })),
  answerMs: optional(whole(1, LIMITS.ttlMsMax)),
  connectMs: optional(whole(1, LIMITS.ttlMsMax)),
  onConnection: optional(callback),
});
