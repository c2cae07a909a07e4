import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto';

/** Of scrypt: 32 MiB and some 60 ms of one core for each password that is tried. */
const COST = { N: 16_384, r: 16, p: 1, maxmem: 64 * 1_024 * 1_024 };
const KEY_BYTES = 64;
const SALT_BYTES = 16;
const NEW_PASSWORD_BYTES = 15;

/** How long a password may be, in characters. */
export const PASSWORD_LENGTH = { min: 12, max: 128 } as const;

/** A new password that nobody has to think of: 120 random bits in 20 characters. */
export function newPassword(): string {
  return randomBytes(NEW_PASSWORD_BYTES).toString('base64url');
}

/**
 * What is stored of a password: a random salt and the scrypt key, both in hexadecimal. It is the form
 * that better-auth itself would write.
 */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES).toString('hex');
  return `${salt}:${(await keyOf(password, salt)).toString('hex')}`;
}

/** Whether a hash is of this password. Takes as long for a wrong one as for the right one. */
export async function verifyPassword(hash: string, password: string): Promise<boolean> {
  const [salt = '', key = ''] = hash.split(':');
  const tried = await keyOf(password, salt);
  const kept = Buffer.from(key, 'hex');
  return kept.length === tried.length && timingSafeEqual(kept, tried);
}

function keyOf(password: string, salt: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    // One text, however it was typed: accents may be composed or not.
    scrypt(password.normalize('NFKC'), salt, KEY_BYTES, COST, (error, key) => {
      if (error === null) resolve(key);
      else reject(error);
    });
  });
}
