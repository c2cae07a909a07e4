/** The generated pages: their addresses and names. What is in them is made by the other files of this folder. */

/** A page that is made when the site is built. */
export interface Generated {
  /** Its address on the site, below `/docs/`, without an ending. */
  readonly to: string;
  readonly text: string;
  /** The document that the page begins with, from the root of the repository. */
  readonly includes?: string;
}

/** In the order of the navigation. */
export const REFERENCE: readonly Generated[] = [
  { to: 'reference/procedures', text: 'Procedures' },
  { to: 'reference/types', text: 'Types' },
  {
    to: 'reference/configuration',
    text: 'Configuration',
    includes: 'docs/reference/configuration.md',
  },
  { to: 'reference/commands', text: 'Commands', includes: 'docs/reference/commands.md' },
  { to: 'reference/metrics', text: 'Metrics' },
];

/** The page of the promises, beside what is measured and proved. */
export const PROMISES: Generated = { to: 'evidence/promises', text: 'Promises and tests' };
