/** What the check of migrations finds and is no danger, each with the reason. */
export interface Accepted {
  readonly migration: string;
  /** The name of a rule of squawk, or a line of the check of the catalog. */
  readonly problem: string;
  readonly because: string;
}

export const ACCEPTED: readonly Accepted[] = [
  {
    migration: '20261125000000_failing_callbacks',
    problem: 'require-concurrent-index-creation',
    because:
      'lease_reap has a row for each expired lease whose callback has not run: few, so the index is built at once.',
  },
  {
    migration: '20261127010000_retention_indexes',
    problem: 'require-concurrent-index-creation',
    because:
      'backend and backend_action have a row or two for each start of a backend: the indexes of a million are built in about a second, in which sessions and reports of drones wait, and renewals do not.',
  },
];
