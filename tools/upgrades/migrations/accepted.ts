/** What the check of migrations finds and is no danger, each with the reason. */
export interface Accepted {
  readonly migration: string;
  /** The name of a rule of squawk, or a line of the check of the catalog. */
  readonly problem: string;
  readonly because: string;
}

export const ACCEPTED: readonly Accepted[] = [];
