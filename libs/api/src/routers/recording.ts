/** What a call leaves behind: that it was refused, and how much of the history it writes. */
import { isHolderKnown, LeaseError, type Named, type Resource } from '@leasehold/keys-core';
import type { HeldAnswer } from '@leasehold/keys-core/leases';
import { withoutStrangers } from '../access.ts';
import type { CallerUse } from '../context.ts';
import { isElsewhere, type CalledContext } from '../forwarding/elsewhere.ts';

// Connects and acquires that are refused: nobody is granted later what was refused once, and each leaves a trace.

interface Refusing<Answer> {
  readonly ctx: CalledContext;
  /** What is asked for. */
  readonly resource: Resource;
  /** For whom; a key is asked for by its caller alone. */
  readonly holder?: string | undefined;
  /** Where it is carried out; by default here. */
  readonly datacenter?: string | undefined;
  readonly idempotencyKey: string | undefined;
  /** Records a refusal under the idempotency key, and throws it, or answers as before. */
  readonly refuse: (error: LeaseError) => Promise<Answer>;
}

/**
 * Carries a request out. A refusal that no retry changes is recorded: a late duplicate is not granted what
 * its caller was refused. `how` is read for a request that is not granted.
 */
export async function refusing<Answer extends object>(
  how: () => Refusing<Answer>,
  run: () => Promise<Answer>,
): Promise<Answer> {
  let answer: Answer;
  try {
    answer = await run();
  } catch (error) {
    answer = await refuse(how(), error);
  }
  if (isHeld(answer)) noteHeld(how(), answer);
  return answer;
}

/** @throws what a request gets that has failed, once it is noted. */
async function refuse<Answer>(how: Refusing<Answer>, failure: unknown): Promise<Answer> {
  try {
    return await refused(how, failure);
  } catch (error) {
    // Another datacenter keeps what it has refused itself; to be sent on to one is no refusal.
    const isNoted = error instanceof LeaseError && error.from === undefined;
    if (isNoted && error.code !== 'gateway.elsewhere') {
      note(how, { code: error.code, reason: error.message });
    }
    throw error;
  }
}

function noteHeld<Answer>(how: Refusing<Answer>, held: HeldAnswer): void {
  if (isElsewhere(how.ctx, how.datacenter)) return;
  const reason = isHolderKnown(held) ? `It is held by ${held.by}.` : 'Who has it is not known.';
  note(how, { code: 'held', reason });
}

/** What an acquire asks for, for whom and where. */
export function askedFor(
  face: 'lease' | 'environment',
  { namespace, name, holder, datacenter }: Named & Pick<Refusing<never>, 'holder' | 'datacenter'>,
) {
  return { resource: { face, namespace, name }, holder, datacenter };
}

/** What a request gets that has failed. */
export async function refused<Answer>(
  { idempotencyKey, refuse }: Pick<Refusing<Answer>, 'idempotencyKey' | 'refuse'>,
  error: unknown,
): Promise<Answer> {
  const isRefusal = error instanceof LeaseError && !error.retryable;
  if (idempotencyKey === undefined || !isRefusal) throw error;
  return refuse(error);
}

function isHeld(answer: object): answer is HeldAnswer {
  return 'outcome' in answer && answer.outcome === 'held' && 'by' in answer;
}

function note(
  { ctx, resource, holder }: Pick<Refusing<unknown>, 'ctx' | 'resource' | 'holder'>,
  why: { readonly code: string; readonly reason: string },
): void {
  const { actor, principal } = ctx.caller;
  const refusal = { ...resource, ...why, actor, principal, holder: holder ?? null };
  ctx.services.refusals.note(withoutStrangers(refusal, ctx.access));
}

// How much of the history a call writes: events are kept for weeks.

/** An event without its texts, with its places in the indexes. */
const EVENT_BYTES = 250;
/** One that begins a grant, and one that ends it. */
const EVENTS_OF_A_GRANT = 2;

/** What the events of a grant say. */
interface GrantTexts {
  readonly namespace: string;
  readonly name: string;
  /** Who holds it, and why: in the first event only. */
  readonly holder?: string | null | undefined;
  readonly action?: string | undefined;
  readonly comment?: string | null | undefined;
}

export function bytesOfGrant({ namespace, name, ...said }: GrantTexts): number {
  const each = EVENT_BYTES + bytesOf(namespace, name);
  return EVENTS_OF_A_GRANT * each + bytesOf(said.holder, said.action, said.comment);
}

/** Of an event about a grant, such as an operator's act, with its texts. */
export function bytesOfEvent(...texts: readonly (string | null | undefined)[]): number {
  return EVENT_BYTES + bytesOf(...texts);
}

/** Of texts that are added to an event which is counted already. */
export function bytesOf(...texts: readonly (string | null | undefined)[]): number {
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0);
}

/**
 * Runs a call that may grant something, if its caller may write so much more in this hour. What was not granted
 * is not counted.
 * @throws {LeaseError} `request.rate_limited`; what `run` throws.
 */
export async function writing<Answer>(
  use: Pick<CallerUse, 'startWriting'> | undefined,
  bytes: number,
  run: () => Promise<Answer>,
  isGranted: (answer: Answer) => boolean,
): Promise<Answer> {
  const takeBack = use?.startWriting(bytes);
  let isWritten = false;
  try {
    const answer = await run();
    isWritten = isGranted(answer);
    return answer;
  } finally {
    if (!isWritten) takeBack?.();
  }
}
