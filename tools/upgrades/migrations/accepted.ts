/** What the check of migrations finds and is no danger, each with the reason. */
export interface Accepted {
  readonly migration: string;
  /** The name of a rule of squawk, or a line of the check of the catalog. */
  readonly problem: string;
  readonly because: string;
}

const POOLS = '20261128150000_pools';

export const ACCEPTED: readonly Accepted[] = [
  {
    migration: POOLS,
    problem:
      "new rule for a table of the previous version: constraint of lease: CHECK (((num_nulls(pool, mode) = ANY (ARRAY[0, 2])) AND ((mode IS NULL) OR (mode = ANY (ARRAY['permit'::text, 'shared'::text, 'exclusive'::text]))))) NOT VALID",
    because: 'Both columns are new, and null in every row that the previous version writes.',
  },
  {
    migration: POOLS,
    problem:
      'new rule for a table of the previous version: constraint of lease_declaration: CHECK (((permits_per_key > 0) AND (permits_total > 0) AND ((permits_per_key IS NULL) = (permits_by IS NULL)) AND ((permits_per_key IS NOT NULL) OR (num_nonnulls(permits_total, permits_principal) = 0)))) NOT VALID',
    because: 'All its columns are new, and the previous version leaves them as they are.',
  },
  {
    migration: '20261129100000_waits',
    problem:
      "new rule for a table of the previous version: CREATE TRIGGER lease_waiter_gone AFTER DELETE ON leasehold.lease_waiter FOR EACH ROW WHEN ((old.face <> 'key'::text)) EXECUTE FUNCTION lease_waiter_note_wait()",
    because: 'It refuses nothing: it writes a row to a new table, by its own rights, or none.',
  },
];
