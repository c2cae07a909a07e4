/**
 * A request for another datacenter is carried out there, by the same procedure: the input is
 * forwarded as it was sent, and both sides check it. A request is forwarded only once.
 */
import { LeaseError, LIMITS, type Actor, type Caller } from '@leasehold/keys-core';
import type { Access } from '../access.ts';
import type { ApiContext } from '../context.ts';

/** The context of a procedure, which knows how it was called. */
export interface CalledContext extends ApiContext {
  readonly access: Access;
  /** The caller as the services know it. */
  readonly caller: Caller;
  /** Who acts, for the audit. */
  readonly actor: Actor;
  readonly procedure: string;
  /** The input as it was sent. */
  readonly rawInput: () => Promise<unknown>;
}

/** Whether an input names another datacenter than this one. */
export function isElsewhere(
  { services }: Pick<ApiContext, 'services'>,
  datacenter: string | undefined,
): datacenter is string {
  return datacenter !== undefined && datacenter !== services.datacenter;
}

/** Whether an input is sent on to the datacenter that it names. */
export function isSentOn(
  ctx: Pick<ApiContext, 'services' | 'isForwarded'>,
  datacenter: string | undefined,
): datacenter is string {
  return isElsewhere(ctx, datacenter) && knownFrom(ctx).includes(datacenter);
}

function knownFrom({ services, isForwarded }: Pick<ApiContext, 'services' | 'isForwarded'>) {
  return isForwarded ? [] : services.datacenters.peers;
}

/**
 * Carries out a procedure here, unless its input names another datacenter. The answer from there
 * has the type of the answer here, because it is the same procedure.
 * @throws {LeaseError} as `DatacenterService.call`.
 */
export async function at<Input extends { readonly datacenter?: string | undefined }, Answer>(
  ctx: CalledContext,
  input: Input & { readonly waitMs?: number | undefined; readonly callMs?: number | undefined },
  run: (input: Omit<Input, 'datacenter'>) => Answer | Promise<Answer>,
): Promise<Answer> {
  const { datacenter, ...rest } = input;
  if (!isElsewhere(ctx, datacenter)) return run(rest);
  return (await sendOn(ctx, datacenter, {
    input: await inputElsewhere(ctx),
    waitMs: Math.min(input.waitMs ?? 0, input.callMs ?? LIMITS.waitMsMax),
  })) as Answer;
}

/** The resolver of a procedure that is carried out where its input says: see {@link at}. */
export function placed<Input extends { readonly datacenter?: string | undefined }, Answer>(
  run: (ctx: CalledContext, input: Omit<Input, 'datacenter'>) => Answer | Promise<Answer>,
): (call: { readonly ctx: CalledContext; readonly input: Input }) => Promise<Answer> {
  return ({ ctx, input }) => at(ctx, input, (rest) => run(ctx, rest));
}

/** The input of the call as it was sent, without its datacenter. */
export async function inputElsewhere(ctx: CalledContext): Promise<Record<string, unknown>> {
  return withoutDatacenter(await ctx.rawInput());
}

/** An input without its datacenter. */
export function withoutDatacenter(input: unknown): Record<string, unknown> {
  if (typeof input !== 'object' || input === null) return {};
  return Object.fromEntries(Object.entries(input).filter(([field]) => field !== 'datacenter'));
}

/** What is sent to another datacenter. */
interface Sent {
  readonly input: object;
  /** How long the caller may wait for the answer there. */
  readonly waitMs?: number | undefined;
  /** As in `ForwardedCall`. */
  readonly isOneOfSeveral?: boolean | undefined;
}

/**
 * Forwards the procedure of this call.
 * @throws {LeaseError} as `DatacenterService.call`; `request.rate_limited`, `quota.exceeded`.
 */
export async function sendOn(ctx: CalledContext, datacenter: string, sent: Sent): Promise<unknown> {
  assertKnown(ctx, datacenter);
  const { procedure, access, source, signal } = ctx;
  const over = countSent(ctx, sent);
  let answer: unknown;
  try {
    const call = { ...sent, procedure, access, source, signal };
    answer = await ctx.services.datacenters.call(datacenter, call);
    return answer;
  } finally {
    over(answer);
  }
}

/** What begins grants: the events of these, which are by far the most, are written there. */
const GRANTING = [
  'leases.acquire',
  'leases.acquireAll',
  'leases.acquireMany',
  'environments.acquire',
  'environments.tryAcquire',
];
/** What changes a grant, or nothing. */
const CHANGING = ['leases.update', 'environments.update', 'leases.downgrade'];
/** What is counted whatever comes of it, as there. */
const ACTING = [
  ...['keys', 'leases'].flatMap((face) => [`${face}.blockRenewal`, `${face}.allowRenewal`]),
  'leases.setPermits',
  'environments.freeze',
  'reservations.requestMove',
];

/** What a procedure writes there that may be refused here. */
interface Writing {
  /** Bytes of the events of one item, without their texts. */
  readonly bytes: number;
  /** Whether an answer shows that it was written; undefined: no answer. */
  readonly isWritten: (answer: unknown) => boolean;
  /** The field without which nothing is written. */
  readonly only?: string | undefined;
}

const WRITING = new Map([
  ...each(GRANTING, { bytes: 500, isWritten: isGranted }),
  ...each(CHANGING, { bytes: 250, isWritten: isUpdated }),
  ...each(ACTING, { bytes: 250, isWritten: () => true }),
  // What a token may start is kept with it.
  ...each(['gateway.sign'], { bytes: 250, isWritten: isAnswered, only: 'spawn' }),
]);

function each(procedures: readonly string[], writing: Writing): [string, Writing][] {
  return procedures.map((procedure) => [procedure, writing]);
}

/**
 * Counts what a caller asks another datacenter for, and what that writes: there all callers of this one have a
 * limit in common, which none may use up alone. Waits are counted where they begin.
 * @returns what is to be called with the answer, or without one.
 * @throws {LeaseError} `request.rate_limited`, `quota.exceeded`.
 */
function countSent({ use, procedure }: CalledContext, { input }: Sent): (answer: unknown) => void {
  const fields = input as Readonly<Record<string, unknown>>;
  const { renewals, items, scopes } = fields;
  const urgent = procedure === 'leases.releaseMany' ? items : renewals;
  if (Array.isArray(urgent)) use?.countItems(urgent.length, 'urgent');
  if (Array.isArray(scopes)) use?.countItems(scopes.length);
  const writing = WRITING.get(procedure);
  if (use === undefined || writing === undefined) return () => undefined;
  if (writing.only !== undefined && fields[writing.only] === undefined) return () => undefined;
  const parts = items ?? scopes;
  const count = Array.isArray(parts) ? parts.length : 1;
  const bytes = count * writing.bytes + Buffer.byteLength(JSON.stringify(input));
  const takeBack = use.startWriting(bytes);
  return (answer) => {
    if (!writing.isWritten(answer)) takeBack();
  };
}

function isAnswered(answer: unknown): boolean {
  return answer !== undefined;
}

function isUpdated(answer: unknown): boolean {
  return ((answer ?? {}) as { outcome?: unknown }).outcome === 'updated';
}

/** Whether anything was: of several, the others cost what was counted for them, too. */
function isGranted(answer: unknown): boolean {
  const { outcome, results } = (answer ?? {}) as { outcome?: unknown; results?: unknown };
  return outcome === 'granted' || (Array.isArray(results) && results.some(isGranted));
}

/** @throws {LeaseError} `reservation.unknown_datacenter`: also for a call that was already forwarded. */
export function assertKnown(ctx: ApiContext, datacenter: string): void {
  const known = knownFrom(ctx);
  if (known.includes(datacenter)) return;
  throw new LeaseError(
    'reservation.unknown_datacenter',
    `There is no datacenter "${datacenter}".`,
    { details: { datacenter, known: [ctx.services.datacenter, ...known] } },
  );
}
