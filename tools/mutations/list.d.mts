/** One place in the code, and what makes it wrong. */
export interface Mutation {
  readonly name: string;
  /** The promise that is broken then. */
  readonly breaks: string;
  readonly file: string;
  /** The text as it is; it must be there once. */
  readonly find: string;
  readonly replace: string;
}

export const MUTATIONS: readonly Mutation[];
