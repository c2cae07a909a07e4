/** Connects and acquires that are refused: nobody is granted later what was refused once, and each leaves a trace. */
import { LeaseError, type Named, type Resource } from '@leasehold/keys-core';
import { isElsewhere, type CalledContext } from '../forwarding/elsewhere.ts';

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
 * its caller was refused.
 */
export async function refusing<Answer extends object>(
  how: Refusing<Answer>,
  run: () => Promise<Answer>,
): Promise<Answer> {
  try {
    const answer = await run().catch((error: unknown) => refused(how, error));
    if (isHeld(answer) && !isElsewhere(how.ctx, how.datacenter)) {
      note(how, { code: 'held', reason: `It is held by ${answer.by}.` });
    }
    return answer;
  } catch (error) {
    // Another datacenter keeps what it has refused itself.
    if (error instanceof LeaseError && error.from === undefined) {
      note(how, { code: error.code, reason: error.message });
    }
    throw error;
  }
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

function isHeld(answer: object): answer is { readonly by: string } {
  return 'outcome' in answer && answer.outcome === 'held' && 'by' in answer;
}

function note(
  { ctx, resource, holder }: Pick<Refusing<unknown>, 'ctx' | 'resource' | 'holder'>,
  why: { readonly code: string; readonly reason: string },
): void {
  const { actor, principal } = ctx.caller;
  ctx.services.refusals.note({ ...resource, ...why, actor, principal, holder: holder ?? null });
}
