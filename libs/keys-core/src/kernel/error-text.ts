import { LIMITS } from './limits.ts';

const encoder = new TextEncoder();

/**
 * What was thrown, as the text that is kept of it: at most `reasonBytesMax` bytes, well-formed and without
 * NUL. Never throws, for any value: other people's code throws anything.
 */
export function errorText(thrown: unknown): string {
  // Cut twice: none of a text that is far too long is copied.
  const text = messageOf(thrown)
    .slice(0, 2 * LIMITS.reasonBytesMax)
    .replaceAll('\0', '')
    .toWellFormed();
  const { read } = encoder.encodeInto(text, new Uint8Array(LIMITS.reasonBytesMax));
  return text.slice(0, read);
}

/** The message of an error, or any other value as text. Never throws. */
export function messageOf(thrown: unknown): string {
  try {
    const said: unknown = thrown instanceof Error ? thrown.message : thrown;
    return typeof said === 'string' ? said : String(said);
  } catch {
    return 'an error without a text';
  }
}
