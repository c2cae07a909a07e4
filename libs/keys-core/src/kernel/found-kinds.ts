/** What a search finds. */
export const FOUND_KINDS = [
  'key',
  'lease',
  'environment',
  'drone',
  'backend',
  'person',
  'token',
] as const;
export type FoundKind = (typeof FOUND_KINDS)[number];

/** How a text was found, best first. `prefix`: of the name. `word`: at the beginning of a word. */
export const MATCHES = ['exact', 'prefix', 'word', 'substring'] as const;
export type Match = (typeof MATCHES)[number];

/** The order of what was found: the best match first, then what is in use, then what is shorter. */
export function compareFound(a: RankedText, b: RankedText): number {
  return (
    MATCHES.indexOf(a.match) - MATCHES.indexOf(b.match) ||
    Number(b.isLive) - Number(a.isLive) ||
    a.text.length - b.text.length ||
    (a.text < b.text ? -1 : Number(a.text > b.text))
  );
}

interface RankedText {
  readonly match: Match;
  readonly isLive: boolean;
  readonly text: string;
}
