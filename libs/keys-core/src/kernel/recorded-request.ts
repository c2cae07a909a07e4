/**
 * What is recorded about an idempotency key: one key stands for one request, on every face, and has one
 * answer. The fingerprint shows whether a later request with the key is the same one.
 */
import { LeaseError } from './errors.ts';
import { type Face, FACES, type Resource } from './resource.ts';

/** The record of an idempotency key. */
export interface RecordedRequest {
  /** Of its grant or its ticket; null when it was given up before it came, and for a refusal. */
  readonly leaseId: string | null;
  /** Its answer; null for a grant of a lease, and while it waits. */
  readonly answer: unknown;
  /** Null when it was given up before it came. */
  readonly face: Face | null;
  /** Of the whole request; null when it was given up before it came. */
  readonly fingerprint: string | null;
}

/** A request that carries an idempotency key. */
export interface IdempotentRequest extends Resource {
  /** Of everything that the request asks for, and of nothing that a retry may change. */
  readonly fingerprint: string;
}

const SEPARATOR = '\u001f';

/** A resource as one text; no part of it can contain the separator. */
export function resourceText({ face, namespace, name }: Resource): string {
  return [face, namespace, name].join(SEPARATOR);
}

/** The answer of a request that was given up; the face is that of the call that gave it up. */
export function givenUp(face: Face): { readonly outcome: 'cancelled'; readonly face: Face } {
  return { outcome: 'cancelled', face };
}

/** @throws {LeaseError} `request.idempotency_reused` when the key stands for another request. */
export function assertSameRequest(record: RecordedRequest, request: IdempotentRequest): void {
  if (!isSameRequest(record, request)) throw new LeaseError('request.idempotency_reused');
}

/** Whether the key was used on this face, or may have been. */
export function isOfFace(record: RecordedRequest, face: Face): boolean {
  const recorded = faceOf(record);
  return recorded === undefined || recorded === face;
}

function isSameRequest(record: RecordedRequest, request: IdempotentRequest): boolean {
  if (record.fingerprint !== null) return record.fingerprint === request.fingerprint;
  // It was given up before it came.
  return isOfFace(record, request.face);
}

function faceOf({ face, answer }: RecordedRequest): Face | undefined {
  if (face !== null) return face;
  if (typeof answer !== 'object' || answer === null || !('face' in answer)) return undefined;
  return FACES.find((one) => one === answer.face);
}
