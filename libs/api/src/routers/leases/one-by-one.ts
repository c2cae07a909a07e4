import type { ErrorCode } from '@leasehold/keys-core';
import type { z } from 'zod';
import type { ApiContext, ApiServices } from '../../context.ts';
import { createTurns } from '../../turns.ts';
import { describeError, type ErrorAnswer } from '../../error-map.ts';

/** The answer to an item of a batch that failed; the other items have their own answers. */
export interface FailedItem {
  readonly outcome: 'failed';
  readonly error: Omit<ErrorAnswer, 'leaseholdCode' | 'httpStatus'> & { readonly code: ErrorCode };
}

/** The call that an item came with. */
export interface FailingCall {
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
