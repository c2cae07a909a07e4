/** The generated pages: their addresses and names. What is in them is made by the other files of this folder. */

/** A page that is made when the site is built. */
export interface Generated {
  /** Its address on the site, below `/docs/`, without an ending. */
  readonly to: string;
  readonly text: string;
}

/** In the order of the navigation. */
export const REFERENCE: readonly Generated[] = [
  { to: 'reference/procedures', text: 'Procedures' },
  { to: 'reference/types', text: 'Types' },
  { to: 'reference/configuration', text: 'Configuration' },
  { to: 'reference/commands', text: 'Commands' },
  { to: 'reference/metrics', text: 'Metrics' },
];
