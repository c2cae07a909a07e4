/** Keeps these hashes apart from any other use of SHA-256; a change would rename everything stored. */
import type { Named } from './resource.ts';
const DOMAIN = 'leasehold.key-id.1';

/**
 * What a backend is told about its key besides the name: an id for its stores. It is 64 hexadecimal
 * digits, the SHA-256 of a fixed word, the joined namespace and the name, with a NUL between them. So
 * it is always the same for every backend of a key in every datacenter, differs between two keys
 * of one name in two namespaces, and reveals the namespace only to somebody who guesses it.
 */
export async function keyIdOf({ namespace, name }: Named): Promise<string> {
  // None of the parts can contain a NUL, so no two keys give the same text.
  const text = [DOMAIN, namespace, name].join('\0');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(text));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, '0')).join('');
}
