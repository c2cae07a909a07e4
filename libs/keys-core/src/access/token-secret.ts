import { createHash, randomBytes } from 'node:crypto';

const SECRET_BYTES = 32;
const SECRET_FORM = /^lh_[A-Za-z0-9_-]{43}$/u;

/** A new secret: `lh_` and 32 random bytes. */
export function newTokenSecret(): string {
  return `lh_${randomBytes(SECRET_BYTES).toString('base64url')}`;
}

/** Whether a text has the form of a secret; says nothing about whether it is one. */
export function isTokenSecret(text: string): boolean {
  return SECRET_FORM.test(text);
}

/**
 * What is stored of a secret, and what it is found by. Secrets are random, so a plain hash is
 * enough: nobody can guess one, and the time of a lookup says nothing about a secret near it.
 */
export function hashTokenSecret(secret: string): string {
  return createHash('sha256').update(secret).digest('hex');
}
