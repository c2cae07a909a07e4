import { joinNamespace, LeaseError, nameProblem } from '@leasehold/keys-core';
import { LeaseholdCallError } from '../../transport/call-errors.ts';

/** Shows in the compiler's error what is wrong with a literal segment. */
export interface InvalidSegment<Segment extends string> {
  readonly 'a segment must not be empty or contain "."': Segment;
}

/** A valid segment of a namespace. A `string` that is not a literal is checked at run time. */
export type ValidSegment<Segment extends string> = Segment extends '' | `${string}.${string}`
  ? string extends Segment
    ? Segment
    : InvalidSegment<Segment>
  : Segment;

/** A namespace whose literal segments are all valid. */
export type ValidNamespace<Namespace extends readonly string[]> = {
  readonly [Place in keyof Namespace]: ValidSegment<Namespace[Place]>;
};

/** @throws {LeaseholdCallError} `request.invalid`, before anything is sent. */
export function assertNamespaceSegments(namespace: readonly string[]): void {
  try {
    joinNamespace(namespace);
  } catch (error) {
    if (!(error instanceof LeaseError)) throw error;
    throw new LeaseholdCallError(error.code, { message: error.message, details: error.details });
  }
}

/** @throws {LeaseholdCallError} `request.invalid`, before anything is sent. */
export function assertName(field: string, name: string): void {
  const problem = nameProblem(name);
  if (problem === undefined) return;
  const details = { field };
  throw new LeaseholdCallError('request.invalid', { message: `${field} ${problem}`, details });
}
