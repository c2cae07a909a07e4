/** What the palette lists, and in which order. Pure. */
import type { Icon } from '@tabler/icons-react';
import type { Look } from '~/ui/text.tsx';

/** One line of the palette. */
export interface Entry {
  readonly id: string;
  readonly label: string;
  readonly icon: Icon;
  /** What stands beside the label. */
  readonly hint?: string;
  readonly look?: Look | undefined;
  /** What kind of thing it is, at the end of the line. */
  readonly kind?: string;
  /** Why it cannot be done; it is listed all the same. */
  readonly whyNot?: string | undefined;
  readonly run: () => void;
}

export interface Section {
  readonly label: string;
  readonly entries: readonly Entry[];
}

/** What begins with the text and is known without a search. */
export const KNOWN_LABEL = 'Actions and pages';

/** Everything that may be listed, before the text is considered. */
export interface Listed {
  readonly found: readonly Entry[];
  readonly acts: readonly Entry[];
  readonly recent: readonly Entry[];
  readonly pages: readonly Entry[];
  readonly console: readonly Entry[];
}

/**
 * The sections for a text. Without one: what can be done here, what was opened last, and all pages. With
 * one: what is known here and begins with it, which is there at once and does not move; then what was found;
 * then what else contains it.
 */
export function sectionsOf(text: string, listed: Listed): readonly Section[] {
  const { found, acts, recent, pages, console } = listed;
  const wanted = text.trim().toLowerCase();
  if (wanted === '') {
    return filled([
      { label: 'This page', entries: acts },
      { label: 'Recent', entries: recent },
      { label: 'Pages', entries: pages },
      { label: 'Console', entries: console },
    ]);
  }
  const known = [...acts, ...pages, ...console];
  const startsWith = ({ label }: Entry): boolean => label.toLowerCase().startsWith(wanted);
  const contains = ({ label }: Entry): boolean => label.toLowerCase().includes(wanted);
  return filled([
    { label: KNOWN_LABEL, entries: known.filter(startsWith) },
    { label: 'Found', entries: found },
    {
      label: 'More actions and pages',
      entries: known.filter((entry) => contains(entry) && !startsWith(entry)),
    },
  ]);
}

function filled(sections: readonly Section[]): Section[] {
  return sections.filter(({ entries }) => entries.length > 0);
}

/** A label in three parts, of which the middle one is what was searched for; undefined without a match. */
export function partsOf(
  label: string,
  text: string,
): readonly [before: string, match: string, after: string] | undefined {
  const wanted = text.trim().toLowerCase();
  const folded = label.toLowerCase();
  const start = wanted === '' ? -1 : folded.indexOf(wanted);
  // Some letters have more characters in lower case: then places in one text are not those in the other.
  if (start === -1 || folded.length !== label.length) return undefined;
  const end = start + wanted.length;
  return [label.slice(0, start), label.slice(start, end), label.slice(end)];
}
