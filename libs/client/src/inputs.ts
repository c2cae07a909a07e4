/**
 * What a caller gives is checked before anything is sent, by the rules of the contract: an input that is
 * refused when the lease is held is refused when it is free, too. `inputs.test.ts` compares both.
 */
import {
  FACES,
  isDatacenterName,
  isId,
  joinNamespace,
  jsonProblem,
  LeaseError,
  LIMITS,
  messageOf,
  nameProblem,
  namespaceProblem,
  repeatedAt,
  reservationKeyProblem,
  textProblem,
} from '@leasehold/keys-core';
import { LeaseholdCallError } from './transport/errors.ts';

/** What is wrong with a value, and where it is. */
interface Problem {
  readonly field: string;
  /** Says what is allowed: `must be …`. */
  readonly problem: string;
}

/** Undefined if nothing is wrong with the value of the field. */
type Check = (value: unknown, field: string) => Problem | undefined;

/** @throws {LeaseholdCallError} `request.invalid`, with the field and what is allowed. */
export function assertInput(check: Check, value: unknown, field: string): void {
  const found = problemWith(check, value, field);
  if (found === undefined) return;
  const message = `${found.field} ${found.problem}`;
  throw new LeaseholdCallError('request.invalid', { message, details: { field: found.field } });
}

function problemWith(check: Check, value: unknown, field: string): Problem | undefined {
  try {
    return check(value, field);
  } catch (error) {
    // A getter, or a proxy, that throws.
    return { field, problem: `cannot be read: ${messageOf(error)}` };
  }
}

/** A check of a value alone; the text says what is allowed. */
function rule(problemOf: (value: unknown) => string | undefined): Check {
  return (value, field) => {
    const problem = problemOf(value);
    return problem === undefined ? undefined : { field, problem };
  };
}

function optional(check: Check): Check {
  return (value, field) => (value === undefined ? undefined : check(value, field));
}

function text(bounds: Parameters<typeof textProblem>[1]): Check {
  return rule((value) => textProblem(value as string, bounds));
}

function matching(isAllowed: (text: string) => boolean, allowed: string): Check {
  return rule((value) => (typeof value === 'string' && isAllowed(value) ? undefined : allowed));
}

function whole(min: number, max: number): Check {
  const allowed = `must be a whole number from ${String(min)} to ${String(max)}`;
  return rule((value) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max
      ? undefined
      : allowed,
  );
}

/** Milliseconds, also parts of them. */
function duration(min: number, max: number): Check {
  const allowed = `must be a number of milliseconds from ${String(min)} to ${String(max)}`;
  return rule((value) =>
    typeof value === 'number' && value >= min && value <= max ? undefined : allowed,
  );
}

function oneOf(...words: readonly unknown[]): Check {
  const allowed = `must be ${words.map((word) => JSON.stringify(word)).join(' or ')}`;
  return rule((value) => (words.includes(value) ? undefined : allowed));
}

function listOf(check: Check, lengthMax = Infinity): Check {
  return (value, field) => {
    if (!Array.isArray(value)) return { field, problem: 'must be a list' };
    if (value.length > lengthMax) {
      return { field, problem: `must have at most ${String(lengthMax)} elements` };
    }
    for (const [index, item] of Array.from(value, (one: unknown) => one).entries()) {
      const found = check(item, `${field}[${String(index)}]`);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** What an object is called where it has no name before its fields, and its form, for people. */
interface Named {
  readonly name: string;
  /** `{ … }` */
  readonly form?: string;
}

/**
 * An object with these fields and no others: a misspelt option would be ignored. `field` is `''` where the fields have
 * no name before theirs.
 */
function fields(shape: Readonly<Record<string, Check>>, named?: Named): Check {
  const known = Object.keys(shape);
  const checked = someFields(shape, named);
  return (value, field) => {
    const found = checked(value, field);
    if (found !== undefined) return found;
    for (const [name, given] of Object.entries(value as object)) {
      if (given === undefined || Object.hasOwn(shape, name)) continue;
      const problem = `is not known: ${known.length === 1 ? 'allowed is' : 'allowed are'} ${known.join(', ')}`;
      return { field: field === '' ? name : `${field}.${name}`, problem };
    }
    return undefined;
  };
}

/** An object, of which these fields are checked; it may have others. */
function someFields(
  shape: Readonly<Record<string, Check>>,
  { name: ownName, form }: Named = { name: 'options' },
): Check {
  const checks = Object.entries(shape);
  const problem = `must be an object${form === undefined ? '' : `, such as ${form}`}`;
  return (value, field) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      return { field: field === '' ? ownName : field, problem };
    }
    for (const [name, check] of checks) {
      const inner = (value as Record<string, unknown>)[name];
      const found = check(inner, field === '' ? name : `${field}.${name}`);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** Checked elsewhere. */
const anything: Check = () => undefined;

const callback: Check = rule((value) =>
  typeof value === 'function' ? undefined : 'must be a function',
);

const flag: Check = oneOf(true, false);

const abortSignal: Check = rule((value) => {
  const given = value as Partial<AbortSignal> | null | undefined;
  const isSignal =
    typeof given?.aborted === 'boolean' && typeof given.addEventListener === 'function';
  return isSignal ? undefined : 'must be an AbortSignal';
});

const datacenter: Check = matching(isDatacenterName, 'must be 1 to 32 of a-z, 0-9 and "-"');

const comment: Check = text({ bytesMax: LIMITS.commentBytesMax });
const holder: Check = text({ bytesMin: 1, bytesMax: LIMITS.holderBytesMax });
const reason: Check = text({ bytesMin: 1, bytesMax: LIMITS.reasonBytesMax });

/** What can be sent at all: no BigInt, no circle. */
export const plainInput: Check = rule((value) => {
  try {
    JSON.stringify(value);
    return undefined;
  } catch (error) {
    return `must be JSON: ${firstLine(error)}`;
  }
});

function firstLine(error: unknown): string {
  return messageOf(error).split('\n', 1)[0] ?? '';
}

/** Metadata as it is sent. @throws {LeaseholdCallError} `request.invalid`. */
export function plainMetadata(metadata: unknown): unknown {
  if (metadata === undefined) return undefined;
  let json: unknown;
  const check = rule((value) => {
    try {
      const written = JSON.stringify(value) as string | undefined;
      if (written === undefined) return 'must be JSON';
      json = JSON.parse(written);
    } catch (error) {
      return `must be JSON: ${firstLine(error)}`;
    }
    return jsonProblem(json, {
      bytesMax: LIMITS.metadataBytesMax,
      depthMax: LIMITS.metadataDepthMax,
    });
  });
  assertInput(check, metadata, 'metadata');
  return json;
}

/** @throws {LeaseholdCallError} `request.invalid`. */
export function assertObserve(scope: unknown, options: unknown): void {
  assertInput(observed, scope, '');
  assertInput(cancelShape, options, '');
}

/** The metadata of an update, as it is sent. @throws {LeaseholdCallError} `request.invalid`. */
export function assertUpdate(change: { readonly metadata: unknown }): unknown {
  assertInput(updating, change, '');
  return plainMetadata(change.metadata);
}

// The inputs of this library, by the rules of the contract.

const name: Check = rule((value) => nameProblem(value as string));

/** Milliseconds of a lease. Out of range it has a code of its own, also at the controller. */
const ttlMs: Check = rule((value) =>
  Number.isInteger(value) ? undefined : 'must be a whole number of milliseconds',
);

/** In line for a lease or an environment, by call after call. */
const waitMs: Check = whole(0, LIMITS.waitMsInLineMax);

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

const permitsCount: Check = whole(1, LIMITS.permitsMax);
const permitsOfKeys = fields({ perKey: permitsCount, total: optional(permitsCount) });

const definition = fields({
  ttlMs: optional(ttlMs),
  waitMs: optional(waitMs),
  description: optional(comment),
  permits: optional((value, field) =>
    typeof value === 'object' ? permitsOfKeys(value, field) : permitsCount(value, field),
  ),
});

const acquiring = fields({
  ...attempt,
  ttlMs: anything,
  metadata: anything,
  waitMs: optional(waitMs),
  mode: optional(oneOf('shared', 'permit', 'exclusive')),
});

const environmentTryFields = {
  ...attempt,
  metadata: anything,
  action: text({ bytesMin: 1, bytesMax: LIMITS.tagBytesMax }),
  durationMs: optional(ttlMs),
  renew: optional(flag),
  override: optional(fields({ reason })),
};

const environmentFields = {
  ...environmentTryFields,
  waitMs: optional(waitMs),
  order: optional(oneOf('oldest', 'newest')),
  supersede: optional(oneOf('waiting', 'running')),
  onWaiting: optional(callback),
};

const acquiringAll = fields({
  ...attempt,
  metadata: anything,
  ttlMs: optional(ttlMs),
  waitMs: optional(waitMs),
});

/** A definition with a key is one too. */
const scope = someFields({
  namespace: namespaceSegments,
  key: name,
  mode: optional(oneOf('shared', 'permit', 'exclusive')),
});

const scopes: Check = (value, field) => {
  const found = listOf(scope, LIMITS.leasesTogetherMax)(value, field);
  if (found !== undefined) return found;
  const names = (value as { readonly namespace: readonly string[]; readonly key: string }[]).map(
    ({ namespace, key }) => ({ namespace: namespace.join('.'), name: key }),
  );
  if (names.length === 0) return { field, problem: 'must have at least 1 element' };
  const place = repeatedAt(names);
  return place === undefined
    ? undefined
    : { field: `${field}[${String(place)}]`, problem: 'must not be in the list twice' };
};

const updating = fields(
  { metadata: rule((value) => (value === undefined ? 'must be JSON' : undefined)) },
  { name: 'change', form: '{ metadata: … }' },
);

/** A definition with a key is one too. */
const observed = someFields(
  { namespace: namespaceSegments, key: name, face: optional(oneOf(...FACES)) },
  { name: 'scope', form: "{ namespace: ['jobs'], key: 'nightly' }" },
);

/** What an environment is asked for: a try waits for nobody, and revokes nothing. */
export type EnvironmentUse = 'try' | 'acquire' | 'work';

const environmentUses: Readonly<Record<EnvironmentUse, Check>> = {
  try: fields(environmentTryFields),
  acquire: fields(environmentFields),
  work: fields(
    { ...environmentFields, veto: optional(callback), record: callback },
    { name: 'work', form: "{ action: 'deploy', record: (lease) => … }" },
  ),
};

const environmentWork = someFields({ veto: optional(callback), record: callback });

/** @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`. */
export function assertDefinition(
  namespace: readonly string[],
  options: { readonly ttlMs?: number | undefined },
): void {
  assertInput(namespaceSegments, namespace, 'namespace');
  assertInput(definition, options, '');
  assertTtlRange(options.ttlMs);
}

/** @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`. */
export function assertAcquire(key: string, options: unknown, wantedTtlMs: number): void {
  assertInput(name, key, 'key');
  assertInput(acquiring, options, '');
  assertInput(ttlMs, wantedTtlMs, 'ttlMs');
  assertTtlRange(wantedTtlMs);
}

/** @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`. */
export function assertAcquireAll(
  wanted: unknown,
  options: { readonly ttlMs?: number | undefined },
): void {
  assertInput(scopes, wanted, 'scopes');
  assertInput(acquiringAll, options, '');
  assertTtlRange(options.ttlMs);
}

/**
 * @param use `work` for the options of `withEnvironmentLease`.
 * @throws {LeaseholdCallError} `request.invalid`, `lease.ttl_out_of_range`.
 */
export function assertEnvironment(
  segments: readonly string[],
  options: {
    readonly durationMs?: number | undefined;
    readonly waitMs?: number | undefined;
    readonly supersede?: string | undefined;
  },
  use: EnvironmentUse,
): void {
  assertInput(listOf(rule(stringProblem)), segments, 'environment');
  assertInput(namespaceSegments, segments.slice(0, -1), 'environment');
  assertInput(name, segments.at(-1) ?? '', 'environment');
  assertInput(environmentUses[use], options, '');
  assertTtlRange(options.durationMs);
  if (options.supersede === undefined || (options.waitMs ?? 0) > 0) return;
  throw new LeaseholdCallError('request.invalid', {
    message: 'supersede needs waitMs: what runs may take long to stop',
    details: { field: 'supersede' },
  });
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
  throw new LeaseholdCallError('lease.ttl_out_of_range', {
    message: ttlRangeText(given),
    details: { ttlMs: given },
  });
}

/** What is allowed, and what was given. */
export function ttlRangeText(ttlMs: number): string {
  const { ttlMsMin, ttlMsMax } = LIMITS;
  return `The TTL must be from ${String(ttlMsMin)} to ${String(ttlMsMax)} ms, not ${String(ttlMs)}.`;
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

const namespaceText: Check = rule(
  (value) => stringProblem(value) ?? namespaceProblem(value as string),
);

const keyShape: Check = fields({
  name,
  namespace: optional(namespaceText),
  tag: optional(text({ bytesMax: LIMITS.tagBytesMax })),
});

const spawnShape: Check = fields({
  program: idText,
  args: optional(
    listOf(
      text({ bytesMax: LIMITS.backendArgBytesMax, isControlAllowed: true }),
      LIMITS.backendArgsMax,
    ),
  ),
  env: optional(environmentVariables),
  lifetimeLimitSeconds: optional(whole(1, LIMITS.lifetimeLimitSecondsMax)),
  idleStopSeconds: optional(whole(1, LIMITS.idleStopSecondsMax)),
  datacenter: optional(datacenter),
});

const user: Check = text({ bytesMin: 1, bytesMax: LIMITS.gatewayUserBytesMax });

const claims: Check = (value, field) =>
  plainInput(value, field) ??
  rule((given) => {
    const json: unknown = JSON.parse(JSON.stringify(given));
    const isObject = typeof json === 'object' && json !== null && !Array.isArray(json);
    if (!isObject) return 'must be an object';
    const { gatewayClaimsBytesMax: bytesMax, metadataDepthMax: depthMax } = LIMITS;
    return jsonProblem(json, { bytesMax, depthMax });
  })(value, field);

/** Who may reach a key; the controller also checks what several fields are together. */
const accessShape: Check = fields({
  user,
  claims: optional(claims),
  expiresInSeconds: optional(whole(1, LIMITS.gatewayTokenSecondsMax)),
  mayStart: optional(flag),
  grantOnly: optional(flag),
});

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/iu;

const leaseId: Check = matching((id) => UUID.test(id), 'must be the id of a lease');

/** `keys.connect`; the controller also checks what several fields are together. */
export const connectShape: Check = fields(
  {
    key: optional(keyShape),
    access: optional(accessShape),
    spawn: optional(spawnShape),
    waitMs: optional(whole(0, LIMITS.waitMsMax)),
    waitFor: optional(oneOf('granted', 'ready')),
    idempotencyKey: optional(text({ bytesMin: 1, bytesMax: LIMITS.idempotencyKeyBytesMax })),
  },
  { name: 'request', form: "{ key: { name: 'demo' }, spawn: { program: 'echo' } }" },
);

export const gatewaySignShape: Check = fields(
  {
    key: keyShape,
    access: accessShape,
    spawn: optional(spawnShape),
    leaseId: optional(leaseId),
  },
  { name: 'request', form: "{ key: { name: 'demo' }, access: { user: 'ann' } }" },
);

export const gatewayRevokeShape: Check = fields(
  {
    namespace: optional(namespaceText),
    name: optional(name),
    user: optional(user),
    leaseId: optional(leaseId),
    reason,
  },
  { name: 'request', form: "{ user: 'ann', reason: 'has left' }" },
);

export const cancelShape: Check = fields(cancel);

export const reservationKey: Check = (value, field) =>
  listOf(rule(stringProblem))(value, field) ??
  rule((key) => reservationKeyProblem(key as string[]))(value, field);

export const reserveShape: Check = fields({ ...cancel, datacenter: optional(datacenter) });
export const resolveShape: Check = fields({ ...cancel, fresh: optional(flag) });
export const moveShape: Check = fields({ ...cancel, toDatacenter: datacenter, reason });
export const backendId: Check = text({ bytesMin: 1, bytesMax: LIMITS.nameBytesMax });

/** It travels in a header. */
const token: Check = matching((text) => /^[\x20-\x7E]*$/u.test(text), 'must be a string of ASCII');

/** `createLeasehold`, besides `url`. */
export const clientShape: Check = fields({
  url: anything,
  clock: anything,
  token,
  transport: optional(oneOf('ws', 'http')),
  holder: optional(holder),
  clientName: optional(text({ bytesMax: LIMITS.nameBytesMax })),
  answerMs: optional(whole(1, LIMITS.ttlMsMax)),
  connectMs: optional(whole(1, LIMITS.ttlMsMax)),
  onConnection: optional(callback),
});

/** A timer of Node with more than this is over at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;
const timer: Check = optional(duration(1, TIMER_MS_MAX));

/** `createControllerClient`, besides `url`. */
export const controllerClientShape: Check = fields({
  url: anything,
  token,
  transport: oneOf('ws', 'http'),
  callTimeoutMs: timer,
  pingMs: timer,
  pongTimeoutMs: timer,
  reconnectMsMax: timer,
  random: optional(callback),
  onConnection: optional(callback),
  onAnswer: optional(callback),
  connectionMs: optional(callback),
});

/** Of time that passes in a test: a year at most. */
export const passedMs: Check = duration(0, 366 * 24 * 3_600_000);

/** A client of `createTestLeasehold`. */
export const testClientShape: Check = fields({ holder: optional(holder) });
