/** The coalescer of the kernel, for statements: their errors are judged as database errors. */
import { TRACE_ORIGINS } from '@leasehold/service-kit/tracing';
import {
  type BatchFailure,
  type Coalescer,
  createCoalescer as createKernelCoalescer,
  type CoalescerOptions as KernelOptions,
} from '../kernel/coalesce.ts';
import { databaseFailureOf } from '../postgres/database-errors.ts';

export type CoalescerOptions<Item, Answer> = Omit<
  KernelOptions<Item, Answer>,
  'failureOf' | 'origins'
>;

/** @see {@link Coalescer} */
export function createCoalescer<Item, Answer>(
  options: CoalescerOptions<Item, Answer>,
): Coalescer<Item, Answer> {
  return createKernelCoalescer({
    ...options,
    failureOf: batchFailureOf,
    origins: TRACE_ORIGINS,
  });
}

function batchFailureOf(error: unknown): BatchFailure | undefined {
  const failure = databaseFailureOf(error);
  return failure === 'contention' || failure === 'data' ? failure : undefined;
}
