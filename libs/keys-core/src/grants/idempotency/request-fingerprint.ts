import { hash } from 'node:crypto';
import { recordedResource, type IdempotentRequest } from '../../kernel/lease/recorded-request.ts';
import type { Resource } from '../../kernel/resource/resource.ts';

/** 132 bits of SHA-256: two requests never share a fingerprint by accident. */
const FINGERPRINT_LENGTH = 22;

/**
 * A request as the record of its idempotency key tells it from others. `asked` is everything that is
 * asked for besides the resource, absent parts as null, without what a retry may change, such as how
 * long it waits. Its contents must never change: a retry may reach a controller of another version.
 */
export function idempotentRequest(
  { face, namespace, name }: Resource,
  asked: Readonly<Record<string, unknown>>,
): IdempotentRequest {
  const resource = { face, namespace, name };
  const digest = hash('sha256', canonicalJson([recordedResource(resource), asked]), 'base64url');
  return { ...resource, fingerprint: digest.slice(0, FINGERPRINT_LENGTH) };
}

/** The same text for equal values, whatever the order of their fields. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
