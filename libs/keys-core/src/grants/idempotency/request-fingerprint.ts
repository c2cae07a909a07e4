import { hash } from 'node:crypto';
import { recordedResource, type IdempotentRequest } from '../../kernel/lease/recorded-request.ts';
import type { Resource } from '../../kernel/resource/resource.ts';

/** 132 bits of SHA-256: two requests never have one fingerprint by accident. */
const FINGERPRINT_LENGTH = 22;

/**
 * A request as its idempotency key's record tells it from others. `asked` is everything that is asked for
 * besides the resource, absent parts as null, and nothing that a retry may change: not how long it waits,
 * nor when it was sent. What is in it stays so: a retry may reach a controller of another version.
 */
export function idempotentRequest(
  { face, namespace, name }: Resource,
  asked: Readonly<Record<string, unknown>>,
): IdempotentRequest {
  const resource = { face, namespace, name };
  const digest = hash('sha256', canonicalJson([recordedResource(resource), asked]), 'base64url');
  return { ...resource, fingerprint: digest.slice(0, FINGERPRINT_LENGTH) };
}

/** One text for equal values, whatever the order of their fields. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}
