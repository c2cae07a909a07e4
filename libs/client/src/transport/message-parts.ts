/**
 * A controller accepts a thousand calls and 896 KiB in one message; a part stays below both, also if each of its
 * characters has three bytes.
 */
const CALLS_MAX = 500;
const CHARACTERS_MAX = 256 * 1_024;
/** A shorter message contains fewer calls than {@link CALLS_MAX}. */
const CHARACTERS_OF_MANY_CALLS = 30 * CALLS_MAX;

/** Cuts a message with a list of calls into several if it is too large. */
export function messageParts(message: string): string[] {
  if (message.length < CHARACTERS_OF_MANY_CALLS || !message.startsWith('[')) return [message];
  const calls = (JSON.parse(message) as unknown[]).map((call) => JSON.stringify(call));
  const parts: string[][] = [[]];
  let charactersCount = 0;
  for (const call of calls) {
    let part = parts.at(-1) ?? [];
    if (part.length >= CALLS_MAX || charactersCount + call.length > CHARACTERS_MAX) {
      parts.push((part = []));
      charactersCount = 0;
    }
    part.push(call);
    charactersCount += call.length + 1;
  }
  return parts.filter((part) => part.length > 0).map((part) => `[${part.join(',')}]`);
}
