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
  /** What it was for, see {@link recordedResource}; null when it was given up before it came. */
  readonly resource: string | null;
  /** Of the whole request; null when it was given up before it came, or an older version recorded it. */
  readonly fingerprint: string | null;
}

/** A request that carries an idempotency key. */
export interface IdempotentRequest extends Resource {
  /** Of everything that the request asks for, and of nothing that a retry may change. */
  readonly fingerprint: string;
}

const SEPARATOR = '\u001f';

/** A resource as the record of a request names it; no part of it can contain the separator. */
export function recordedResource({ face, namespace, name }: Resource): string {
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
  // It was given up before it came, or recorded by a version without fingerprints.
  const face = faceOf(record);
  if (face === undefined) return request.face !== 'key';
  if (face !== request.face) return false;
  return record.resource === null || record.resource === recordedResource(request);
}

/** Undefined for a given-up request that an older version recorded, which it never did for a key. */
function faceOf({ resource, answer }: RecordedRequest): Face | undefined {
  if (resource !== null) return FACES.find((face) => face === resource.split(SEPARATOR, 1)[0]);
  if (typeof answer !== 'object' || answer === null) return undefined;
  if ('face' in answer) return FACES.find((face) => face === answer.face);
  // An older version recorded no resource for a connect.
  return 'backendId' in answer || 'error' in answer ? 'key' : undefined;
}
