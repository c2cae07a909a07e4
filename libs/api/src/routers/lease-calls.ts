/** What leases and environments have in common on the wire. */
import type { ErrorCode, GrantRef, ReleaseOutcome } from '@leasehold/keys-core';
import type { CallerLife, LeaseRenewResult } from '@leasehold/keys-core/leases';
import type { z } from 'zod';
import { bounded, createTurns } from '../bounded-input.ts';
import type { ApiContext, ApiServices } from '../context.ts';
import { grantRefSchema, renewableInputSchema } from '../contract/common.ts';
import {
  cancelInputSchema,
  leaseHeartbeatInputSchema,
  leaseRevokeInputSchema,
  releaseInputSchema,
  type releaseItemSchema,
  updateInputSchema,
} from '../contract/leases.ts';
import { describeError, type ErrorAnswer } from '../error-map.ts';
import { placed, type CalledContext } from '../forwarding/elsewhere.ts';
import { clientProcedure, operatorProcedure } from '../trpc.ts';
import { bytesOf, bytesOfEvent, writing } from './recording.ts';

/** What a holder is told of the database; see `WitnessService`. */
export interface Told {
  readonly witness: string | undefined;
}

/** Carries out a call that may grant something, once it is known that the database has lost nothing. */
export async function acquiring<Answer extends object>(
  { services }: Pick<CalledContext, 'services'>,
  witness: string | undefined,
  run: () => Promise<Answer>,
): Promise<Answer & Told> {
  await services.witness.consider(witness);
  return { ...(await run()), witness: services.witness.told() };
}

/** Carries out renewals, whatever the database has lost: grants that are still there go on. */
export async function renewing<Answer extends object>(
  { services, procedure, requestId }: Pick<CalledContext, 'services' | 'procedure' | 'requestId'>,
  witness: string | undefined,
  run: () => Promise<Answer>,
): Promise<Answer & Told> {
  const considered = services.witness
    .consider(witness)
    .catch((error: unknown) => services.reportFailure(error, { path: procedure, requestId }));
  const answer = await run();
  await considered;
  return { ...answer, witness: services.witness.told() };
}

/** A renewal that is not well-formed, with the text that was sent as its lease id. */
type FailedRenewal = FailedItem & { readonly leaseId: string };

/** The calls of holders that both faces have, and the revocation. */
export function heldCalls(face: 'leases' | 'environments') {
  return {
    heartbeat: clientProcedure
      .input(bounded(leaseHeartbeatInputSchema))
      .mutation(
        placed((ctx, { witness, ...sent }) =>
          renewing(ctx, witness, () => renewMany(ctx, face, sent)),
        ),
      ),

    release: clientProcedure
      .input(bounded(releaseInputSchema))
      .mutation(placed(async (ctx, sent) => ({ outcome: await release(ctx, face, sent) }))),

    /** For a holder whose grant is in force: others see what it says of itself. Renews nothing. */
    update: clientProcedure.input(bounded(updateInputSchema)).mutation(
      placed(async ({ services, caller, use }, sent) =>
        writing(
          use,
          bytesOfEvent(JSON.stringify(sent.metadata)),
          () => services[face].update(sent, caller),
          ({ outcome }) => outcome === 'updated',
        ),
      ),
    ),

    /** For a caller whose answer was lost: undoes its request, whatever the outcome was. */
    cancel: clientProcedure.input(bounded(cancelInputSchema)).mutation(
      placed(async ({ services, caller, use }, sent) => {
        const outcome = await services[face].cancel(sent, caller);
        // A key that was not known is kept, so that a late request with it is granted nothing.
        if (outcome === 'not_found') use?.noteWritten(bytesOfEvent());
        return { outcome };
      }),
    ),

    revoke: operatorProcedure.input(bounded(leaseRevokeInputSchema)).mutation(
      placed(({ services, caller, actor, use }, act) => {
        use?.noteWritten(bytesOfEvent(act.reason));
        return services[face].revoke(act, caller, { ...actor, action: `${face}.revoke` });
      }),
    ),
  };
}

/** What operators do about the renewals of a grant. */
export function renewableActs(face: 'keys' | 'leases') {
  const act = (name: 'blockRenewal' | 'allowRenewal') =>
    operatorProcedure.input(bounded(renewableInputSchema)).mutation(
      placed(({ services, caller, actor, use }, act) => {
        use?.startWriting(bytesOfEvent(act.reason));
        return services[face][name](act, caller, { ...actor, action: `${face}.${name}` });
      }),
    );
  return { blockRenewal: act('blockRenewal'), allowRenewal: act('allowRenewal') };
}

export async function release(
  { services, use, caller }: CalledContext,
  face: 'leases' | 'environments',
  item: z.output<typeof releaseItemSchema>,
): Promise<ReleaseOutcome> {
  const outcome = await services[face].release(item, caller);
  if (outcome === 'released') {
    use?.noteHeld(-1);
    use?.noteWritten(bytesOf(item.detail));
  }
  return outcome;
}

/**
 * Counts a caller as waiting, for so many leases, and checks often whether it is still there. @returns a function that
 * ends both.
 */
export function startWaiting({ use, life }: CalledContext, leaseCount = 1): () => void {
  const stopCounting = use?.startWaiting(leaseCount);
  const unwatch = life.watch();
  return () => {
    unwatch();
    stopCounting?.();
  };
}

/** The caller's connection, which is watched from when it begins to wait. */
export function waitingLife(ctx: CalledContext, leaseCount = 1): CallerLife {
  const { life } = ctx;
  return {
    signal: life.signal,
    isAlive: () => life.isAlive(),
    startWaiting: () => startWaiting(ctx, leaseCount),
  };
}

/** Renews many at once. A renewal that is not well-formed does not fail the others. */
async function renewMany(
  ctx: CalledContext,
  face: 'leases' | 'environments',
  input: { readonly localTimeMs: number; readonly renewals: readonly unknown[] },
): Promise<{ results: (LeaseRenewResult | FailedRenewal)[] }> {
  ctx.use?.countItems(input.renewals.length, 'urgent');
  const renewals: GrantRef[] = [];
  const failed: FailedRenewal[] = [];
  const turn = createTurns();
  for (const renewal of input.renewals) {
    const itsTurn = turn();
    if (itsTurn !== undefined) await itsTurn;
    const parsed = grantRefSchema.safeParse(renewal);
    if (parsed.success) renewals.push(parsed.data);
    else {
      const problem = failedItem(callOf(ctx), parsed.error);
      failed.push({ ...problem, leaseId: leaseIdIn(renewal) });
    }
  }
  const { localTimeMs } = input;
  const renewed =
    renewals.length === 0
      ? []
      : await ctx.services[face].heartbeat({ localTimeMs, renewals }, ctx.caller);
  return { results: [...renewed, ...failed] };
}

const LEASE_ID_LENGTH_MAX = 64;

function leaseIdIn(renewal: unknown): string {
  const isObject = typeof renewal === 'object' && renewal !== null && 'leaseId' in renewal;
  const leaseId = isObject ? renewal.leaseId : undefined;
  return typeof leaseId === 'string' ? leaseId.slice(0, LEASE_ID_LENGTH_MAX) : '';
}

/** The answer to an item of a batch that failed; the other items have their own answers. */
export interface FailedItem {
  readonly outcome: 'failed';
  readonly error: Omit<ErrorAnswer, 'leaseholdCode' | 'httpStatus'> & { readonly code: ErrorCode };
}

/** The call that an item came with. */
interface FailingCall {
  readonly services: ApiServices;
  readonly path: string;
  readonly requestId?: string | undefined;
}

export function callOf(
  ctx: Pick<ApiContext, 'services' | 'requestId'> & { readonly procedure: string },
): FailingCall {
  return { services: ctx.services, path: ctx.procedure, requestId: ctx.requestId };
}

/** The answer to an item that failed. An internal failure is logged: there is no other trace of it. */
export function failedItem(
  { services, path, requestId }: FailingCall,
  thrown: unknown,
): FailedItem {
  const { leaseholdCode, message, retryable, incidentId, details } = describeError(thrown);
  if (incidentId !== null) services.reportFailure(thrown, { path, requestId });
  return {
    outcome: 'failed',
    error: { code: leaseholdCode, message, retryable, incidentId, details },
  };
}

/**
 * Carries out each item by itself, all at the same time as far as one turn may begin them, and answers in their
 * order. An item that is invalid or fails has that as its answer, and does not affect the others.
 */
export async function oneByOne<Input, Answer>(
  batch: FailingCall & {
    readonly items: readonly unknown[];
    readonly schema: z.ZodType<Input>;
  },
  run: (input: Input) => Promise<Answer>,
): Promise<(Answer | FailedItem)[]> {
  const { items, schema } = batch;
  const turn = createTurns();
  return Promise.all(
    items.map(async (item) => {
      const itsTurn = turn();
      if (itsTurn !== undefined) await itsTurn;
      try {
        return await run(schema.parse(item));
      } catch (error) {
        return failedItem(batch, error);
      }
    }),
  );
}
