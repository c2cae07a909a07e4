/** Why a typed confirmation does not match, in words. Pure. */
import { printableText } from '@leasehold/keys-core';
import { counted } from '~/lib/format.ts';

/** Whether this is what has to be typed: the text itself, or as it is shown where it has unseen characters. */
export function isTypedRight(typed: string, wanted: string): boolean {
  // A name may begin or end with a space of its own.
  return [typed, typed.trim()].some((text) => text === wanted || text === printableText(wanted));
}

/** Why the typed text does not match; undefined when it does, and before anything was typed. */
export function typedMismatch(typed: string, wanted: string): string | undefined {
  if (typed.trim() === '' || isTypedRight(typed, wanted)) return undefined;
  const shown = printableText(wanted);
  const text = printableText(typed.trim());
  if (/^\d+$/u.test(wanted)) return `That is not ${wanted}.`;
  if (shown.startsWith(text)) {
    return `Not complete: ${counted(charsOf(shown).length - charsOf(text).length, 'more character')} to type.`;
  }
  if (shown.endsWith(`/${text}`)) return 'The namespace is missing: type the whole of it.';
  if (text.startsWith(shown)) return `Too long: “${text.slice(shown.length)}” is not part of it.`;
  if (text.normalize() === shown.normalize()) {
    return 'It looks the same, but its accents are encoded in another way: copy it from above.';
  }
  const place = firstDifference(text, shown);
  const isCaseOnly = text.toLowerCase() === shown.toLowerCase();
  const why = isCaseOnly ? 'Upper and lower case differ' : 'It differs';
  return `${why} at character ${String(place + 1)}: “${charsOf(text)[place] ?? ''}” should be “${charsOf(shown)[place] ?? ''}”.`;
}

function firstDifference(one: string, other: string): number {
  const chars = charsOf(one);
  const others = charsOf(other);
  const place = chars.findIndex((char, index) => char !== others[index]);
  return place === -1 ? chars.length : place;
}

function charsOf(text: string): string[] {
  return Array.from(text);
}
