import { randomBytes, randomUUID } from 'node:crypto';

/** Random ids and numbers, from the system's generator. */
export interface SystemIds {
  uuid(): string;
  /** `length` characters of `[a-z0-9]`, each equally likely. */
  alphanumeric(length: number): string;
  /** A number in `[0, 1)`. */
  random(): number;
}

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz0123456789';
/** The largest multiple of 36 in a byte: bytes above it would make some characters likelier. */
const BYTE_LIMIT = 252;
const RANDOM_BITS = 48;

/** The source of ids of a real process. */
export function systemIds(): SystemIds {
  return {
    uuid: () => randomUUID(),
    alphanumeric(length) {
      let text = '';
      while (text.length < length) {
        for (const byte of randomBytes(length)) {
          if (byte < BYTE_LIMIT && text.length < length) {
            text += ALPHABET.charAt(byte % ALPHABET.length);
          }
        }
      }
      return text;
    },
    random: () => randomBytes(RANDOM_BITS / 8).readUIntBE(0, RANDOM_BITS / 8) / 2 ** RANDOM_BITS,
  };
}
