import {
  FACES,
  type FreezePlace,
  jsonProblem,
  LIMITS,
  nameProblem,
  ORDERED_ROLES,
  repeatedAt,
  SLOT_MODES,
} from '@leasehold/keys-core';
import { z } from 'zod';
import {
  anyDatacenterSchema,
  assertResumable,
  checked,
  grantRefSchema,
  holderSchema,
  idempotencyKeySchema,
  instantSchema,
  itemSchemas,
  leaseIdSchema,
  localTimeMsSchema,
  nameSchema,
  namespaceSchema,
  pageFields,
  placedFields,
  reasonSchema,
  resourceFilterFields,
  resourcePageFields,
  segmentsOrProblem,
  segmentsSchema,
  textSchema,
  toldFields,
  uuidSchema,
  windowMinutesSchema,
} from './common.ts';

/** What a holder writes about itself, for callers that are refused. */
const commentSchema = textSchema({ bytesMax: LIMITS.commentBytesMax });

/** Any JSON, bounded in bytes and in depth: a poisoned value must not reach a batch. */
const metadataSchema = checked(z.unknown(), (value) =>
  value === undefined
    ? undefined
    : jsonProblem(value, { bytesMax: LIMITS.metadataBytesMax, depthMax: LIMITS.metadataDepthMax }),
);

/** A TTL that is out of range is refused later, by the service, with an error of its own. */
const ttlMsSchema = z.number().int();

/** Alone, beside others that share it, or with one of a declared number of permits. */
const modeSchema = z.enum(SLOT_MODES);

const permitsCountSchema = z.number().int().min(1).max(LIMITS.permitsMax);

/** How many may hold one key at once, and all keys of the namespace together. */
const permitsSchema = z.strictObject({
  perKey: permitsCountSchema,
  /** Null or absent: no such limit. */
  total: permitsCountSchema.nullable().default(null),
});

/** One acquire that does not wait, as it travels in a batch. */
export const acquireItemSchema = z.strictObject({
  namespace: segmentsSchema,
  key: nameSchema,
  ttlMs: ttlMsSchema,
  holder: holderSchema,
  mode: modeSchema.optional(),
  comment: commentSchema.optional(),
  metadata: metadataSchema.optional(),
  idempotencyKey: idempotencyKeySchema.optional(),
  ...placedFields,
});

const waitingFields = {
  /** How long to wait in line. A call takes two minutes at most: a longer wait is several calls. */
  waitMs: z.number().int().min(0).max(LIMITS.waitMsInLineMax).default(0),
  /**
   * How long this call may take, by default two minutes. Then it answers `waiting`, and the same call, sent again with
   * its key and what is left of `waitMs`, waits on at its place.
   */
  callMs: z.number().int().min(LIMITS.callMsMin).max(LIMITS.waitMsMax).optional(),
  /** The caller renews the grant before it uses it: until then the grant is a short one. */
  confirms: z.boolean().default(false),
};

export const acquireInputSchema = acquireItemSchema
  .extend({ ...waitingFields, localTimeMs: localTimeMsSchema, ...toldFields })
  .superRefine(assertResumable);

/** Asks for several leases: all of them, or none. */
export const acquireAllInputSchema = acquireItemSchema
  .omit({ namespace: true, key: true, mode: true })
  .extend({
    scopes: z
      .array(
        z.strictObject({ namespace: segmentsSchema, key: nameSchema, mode: modeSchema.optional() }),
      )
      .min(1)
      .max(LIMITS.leasesTogetherMax)
      .superRefine((scopes, ctx) => {
        const place = repeatedAt(scopes.map(({ namespace, key: name }) => ({ namespace, name })));
        if (place === undefined) return;
        ctx.addIssue({ code: 'custom', path: [place], message: 'must not be in the list twice' });
      }),
    ...waitingFields,
    localTimeMs: localTimeMsSchema,
    ...toldFields,
  })
  .superRefine(assertResumable);

/** How a failed piece of work describes its failure; it may have line breaks. */
const detailSchema = textSchema({ bytesMax: LIMITS.reasonBytesMax, isControlAllowed: true });

/** One release, as it travels in a batch. */
export const releaseItemSchema = grantRefSchema.extend({
  result: z.enum(['ok', 'failed']).default('ok'),
  detail: detailSchema.optional(),
});

export const releaseInputSchema = releaseItemSchema.extend(placedFields);

/** Shares what is held alone. */
export const downgradeInputSchema = grantRefSchema.extend(placedFields);

export const updateInputSchema = grantRefSchema.extend({
  /** In place of what the grant has now; null for none. */
  metadata: metadataSchema,
  ...placedFields,
});

/**
 * A list whose items are checked one by one, when they are carried out: one bad item must not fail
 * the others that travel with it. The type is that of the item, for the code that writes one.
 */
function itemsOf<Item extends z.ZodType>(
  item: Item,
  countMax: number,
): z.ZodArray<z.ZodType<z.input<Item>, z.input<Item>>> {
  const anything = z.custom<z.input<Item>>();
  itemSchemas.set(anything, item);
  return z.array(anything).max(countMax);
}

export const acquireManyInputSchema = z.strictObject({
  localTimeMs: localTimeMsSchema,
  items: itemsOf(acquireItemSchema, LIMITS.acquiresPerCallMax),
  ...toldFields,
});

export const releaseManyInputSchema = z.strictObject({
  items: itemsOf(releaseItemSchema, LIMITS.renewalsPerCallMax),
  ...placedFields,
});

export const leaseHeartbeatInputSchema = z.strictObject({
  localTimeMs: localTimeMsSchema,
  renewals: itemsOf(grantRefSchema, LIMITS.renewalsPerCallMax),
  ...toldFields,
  ...placedFields,
});

export const cancelInputSchema = z.strictObject({
  idempotencyKey: idempotencyKeySchema,
  ...placedFields,
});

/** `clientId` names the process that subscribes, for people who look for it. */
export const leaseSessionInputSchema = z.strictObject({ clientId: holderSchema });

/** A namespace as in views, or in segments. */
const anyNamespaceSchema = z.union([namespaceSchema, segmentsSchema]);

export const declareInputSchema = z.strictObject({
  declarations: z
    .array(
      z.strictObject({
        namespace: segmentsSchema,
        ttlMs: ttlMsSchema,
        description: commentSchema.optional(),
        permits: permitsSchema.optional(),
      }),
    )
    .max(LIMITS.acquiresPerCallMax),
  ...placedFields,
});

export const declaredInputSchema = z
  .strictObject({
    /** Only of this namespace, without its children. */
    namespace: anyNamespaceSchema.optional(),
    ...pageFields,
    ...placedFields,
  })
  .prefault({});

export const setPermitsInputSchema = z.strictObject({
  namespace: anyNamespaceSchema,
  permits: permitsSchema,
  reason: reasonSchema,
  ...placedFields,
});

const addressFields = {
  name: nameSchema.optional(),
  /** The same as `name`. */
  key: nameSchema.optional(),
  namespace: anyNamespaceSchema.default(''),
  ...placedFields,
};

const WAITS_WINDOW_MINUTES_MAX = 24 * 60;

/** The name in an address, from either of its two fields. */
function addressOf<Fields extends { name?: string | undefined; key?: string | undefined }>(
  { name, key, ...rest }: Fields,
  ctx: z.RefinementCtx,
): Omit<Fields, 'name' | 'key'> & { readonly name: string } {
  const found = name ?? key;
  if (found === undefined || (name !== undefined && key !== undefined)) {
    ctx.addIssue({ code: 'custom', path: ['key'], message: 'must be given, once' });
  }
  return { ...rest, name: found ?? '' };
}

/** Names a lease: `{ namespace, key }`, or `{ namespace, name }` as in its view. */
export const leaseNameSchema = z.strictObject(addressFields).transform(addressOf);

/** Asks who held a lease at a moment of the database's clock. */
export const leaseAtInputSchema = z
  .strictObject({ ...addressFields, at: instantSchema })
  .transform(addressOf);

/** The time up to now that waits are counted in: they are kept for a day. */
const waitsWindowFields = {
  windowMinutes: windowMinutesSchema.max(WAITS_WINDOW_MINUTES_MAX).default(60),
};

/** Asks why callers wait for a lease. */
export const leaseWhyInputSchema = z
  .strictObject({ ...addressFields, ...waitsWindowFields })
  .transform(addressOf);

/** Asks for what belongs to one lease, page by page. */
export const leasePageInputSchema = z
  .strictObject({ ...addressFields, ...pageFields })
  .transform(addressOf);

/** Filters of the lists of leases and environments. */
const leaseFilterFields = {
  namespace: anyNamespaceSchema.optional(),
  /** Whether children of `namespace` are listed too. */
  includeChildren: z.boolean().default(true),
  ...resourceFilterFields,
};

export const leaseListInputSchema = z
  .strictObject({ ...leaseFilterFields, ...resourcePageFields })
  .prefault({});

export const leaseCountInputSchema = z.strictObject(leaseFilterFields).prefault({});

/** Each that is shown costs two statements of its own. */
const WAITS_LIMIT_MAX = 20;

/** What is in a namespace and below it. */
const withinFields = {
  namespace: anyNamespaceSchema.optional(),
  datacenter: anyDatacenterSchema,
};

export const leaseTreeInputSchema = z
  .strictObject({
    ...withinFields,
    /** Leaves out Leasehold's own leases. */
    withoutOwn: z.boolean().optional(),
  })
  .prefault({});

export const leaseContentionInputSchema = z
  .strictObject({
    ...withinFields,
    ...pageFields,
    /** What is waited for; leases alone without it. */
    faces: z.array(z.enum(FACES)).min(1).max(FACES.length).optional(),
  })
  .prefault({});

export const mostWaitedInputSchema = z
  .strictObject({
    /** In this namespace and its children; everywhere without it. */
    namespace: anyNamespaceSchema.optional(),
    ...waitsWindowFields,
    limit: z.int().min(1).max(WAITS_LIMIT_MAX).default(5),
    ...placedFields,
  })
  .prefault({});

export const failingCallbacksInputSchema = z
  .strictObject({ ...withinFields, ...pageFields })
  .prefault({});

export const leaseRevokeInputSchema = z.strictObject({
  leaseId: leaseIdSchema,
  mode: z.enum(['graceful', 'force']),
  reason: reasonSchema,
  ...placedFields,
});

/** An environment as it is stored. */
interface EnvironmentName {
  readonly namespace: string;
  readonly name: string;
}

/** `'prod'`, or `['team', 'app', 'prod']`: the last element is the name. */
export const environmentSchema = z
  .union([
    z.string(),
    z
      .array(z.string())
      .min(1)
      .max(LIMITS.namespaceSegmentsMax + 1),
  ])
  .transform((environment, ctx): EnvironmentName => {
    const segments = typeof environment === 'string' ? [environment] : environment;
    const name = segments.at(-1) ?? '';
    const namespace = segmentsOrProblem(segments.slice(0, -1));
    const problem = nameProblem(name);
    if (problem === undefined && typeof namespace === 'string') return { namespace, name };
    ctx.addIssue({
      code: 'custom',
      message: typeof namespace === 'string' ? (problem ?? '') : namespace.problem,
    });
    return z.NEVER;
  });

/** What an environment is leased for; a label of metrics, and the first thing that a refused caller reads. */
const actionSchema = textSchema({ bytesMin: 1, bytesMax: LIMITS.tagBytesMax });

export const tryAcquireInputSchema = z.strictObject({
  environment: environmentSchema,
  action: actionSchema,
  holder: holderSchema,
  comment: commentSchema.optional(),
  metadata: metadataSchema.optional(),
  /** By default `LEASEHOLD_ENVIRONMENT_LEASE_MS` of the controller. */
  durationMs: z.number().int().optional(),
  localTimeMs: localTimeMsSchema,
  idempotencyKey: idempotencyKeySchema.optional(),
  /** Asks for it although it is frozen, for this reason. Who may is named by the freeze. */
  override: z.strictObject({ reason: reasonSchema }).optional(),
  ...toldFields,
  ...placedFields,
});

/** In the place of those that wait, or run, for the same action. */
export const acquireEnvironmentInputSchema = tryAcquireInputSchema
  .extend({
    ...waitingFields,
    /** `newest`: before those that came earlier, instead of after them. */
    order: z.enum(['oldest', 'newest']).optional(),
    /** Refuses those that wait for the same action; with `running`, also revokes the one that holds it. */
    supersede: z.enum(['waiting', 'running']).optional(),
    /** Of the last request of this wait whose place or grant was lost: what has superseded that refuses this one. */
    again: idempotencyKeySchema.optional(),
  })
  .superRefine((input, ctx) => {
    assertResumable(input, ctx);
    if (input.waitMs > 0) return;
    const needsWait = (field: 'supersede' | 'again', why: string): void => {
      if (input[field] === undefined) return;
      ctx.addIssue({ code: 'custom', path: [field], message: `needs waitMs: ${why}` });
    };
    needsWait('supersede', 'what runs may take long to stop');
    needsWait('again', 'only what waits is asked for again');
  });

const environmentAddressFields = {
  environment: environmentSchema.optional(),
  name: nameSchema.optional(),
  namespace: anyNamespaceSchema.optional(),
  ...placedFields,
};

interface EnvironmentAddress {
  readonly environment?: EnvironmentName | undefined;
  readonly name?: string | undefined;
  readonly namespace?: string | undefined;
}

function environmentAddressOf<Fields extends EnvironmentAddress>(
  { environment, name, namespace, ...rest }: Fields,
  ctx: z.RefinementCtx,
): Omit<Fields, keyof EnvironmentAddress> & EnvironmentName {
  const isTwofold = environment !== undefined && (name !== undefined || namespace !== undefined);
  const found =
    environment ?? (name === undefined ? undefined : { name, namespace: namespace ?? '' });
  if (found === undefined || isTwofold) {
    ctx.addIssue({ code: 'custom', path: ['environment'], message: 'must be given, once' });
  }
  return { ...rest, name: found?.name ?? '', namespace: found?.namespace ?? '' };
}

/** Names an environment: `{ environment }`, or `{ namespace, name }` as in its view. */
export const environmentNameSchema = z
  .strictObject(environmentAddressFields)
  .transform(environmentAddressOf);

/** Asks who held an environment at a moment of the database's clock. */
export const environmentAtInputSchema = z
  .strictObject({ ...environmentAddressFields, at: instantSchema })
  .transform(environmentAddressOf);

/** Asks why callers wait for an environment. */
export const environmentWhyInputSchema = z
  .strictObject({ ...environmentAddressFields, ...waitsWindowFields })
  .transform(environmentAddressOf);

const environmentFilterFields = { ...leaseFilterFields, action: actionSchema.optional() };

/** Free environments are listed too: a list shows all that exist. */
export const environmentListInputSchema = z
  .strictObject({ ...environmentFilterFields, ...resourcePageFields })
  .prefault({});

export const environmentCountInputSchema = z.strictObject(environmentFilterFields).prefault({});

/** Asks for what belongs to one environment, page by page. */
export const environmentPageInputSchema = z
  .strictObject({ ...environmentAddressFields, ...pageFields })
  .transform(environmentAddressOf);

const freezePlaceFields = {
  environment: environmentSchema.optional(),
  name: nameSchema.optional(),
  /** Without a name: all environments of it, children included; the empty one is all that there are. */
  namespace: anyNamespaceSchema.optional(),
};

/** The root must be named too: a freeze of everything is not what a forgotten field leads to. */
function freezePlaceOf<Fields extends EnvironmentAddress>(
  { environment, name, namespace, ...rest }: Fields,
  ctx: z.RefinementCtx,
): Omit<Fields, keyof EnvironmentAddress> & FreezePlace {
  const isNamed = name !== undefined || namespace !== undefined;
  if ((environment === undefined) !== isNamed) {
    const message = 'must be given, once, or a namespace';
    ctx.addIssue({ code: 'custom', path: ['environment'], message });
  }
  return {
    ...rest,
    namespace: environment?.namespace ?? namespace ?? '',
    name: environment?.name ?? name ?? null,
  };
}

/** Freezes an environment, or all of a namespace. */
export const freezeInputSchema = z
  .strictObject({
    ...freezePlaceFields,
    /** The only action that is frozen; without it all are. */
    action: actionSchema.optional(),
    reason: reasonSchema,
    /** By default now. */
    from: instantSchema.optional(),
    until: instantSchema.optional(),
    /** Instead of from and until: windows that come again. */
    recurrence: z
      .strictObject({
        /** When each window begins by the clock of the zone: `0 17 * * 5` is every Friday at 17:00. */
        schedule: textSchema({ bytesMin: 1, bytesMax: LIMITS.freezeScheduleBytesMax }),
        /** How long each lasts, by the clock of the zone. */
        durationMs: z.number().int().min(LIMITS.freezeMsMin).max(LIMITS.freezeMsMax),
        /** An IANA time zone. */
        zone: textSchema({ bytesMin: 1, bytesMax: LIMITS.freezeZoneBytesMax }),
      })
      .optional(),
    /** Who may override it; by default operators and administrators. */
    allowRoles: z.array(z.enum(ORDERED_ROLES)).max(ORDERED_ROLES.length).optional(),
    /** Names of tokens, and addresses of people; from another datacenter NAME@DATACENTER. */
    allowPeople: z.array(holderSchema).max(LIMITS.freezePeopleMax).optional(),
    /** Whether those who hold such an environment now are told to stop; they go on otherwise. */
    stopRunning: z.boolean().optional(),
    ...placedFields,
  })
  .transform(freezePlaceOf);

export const unfreezeInputSchema = z.strictObject({
  freezeId: uuidSchema,
  reason: reasonSchema,
  ...placedFields,
});

export const freezeListInputSchema = z
  .strictObject({
    /** Those that are about this environment, with those of the namespaces that it is in. */
    environment: environmentSchema.optional(),
    /** Those of this namespace and its children. */
    namespace: anyNamespaceSchema.optional(),
    /** Whether those that are over or removed are listed too. */
    withHistory: z.boolean().optional(),
    datacenter: anyDatacenterSchema,
    ...pageFields,
  })
  .prefault({});
