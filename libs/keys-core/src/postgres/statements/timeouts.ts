/** After how long the server cancels a transition, in milliseconds. */
export const STATEMENT_TIMEOUT_MS = 2_000;
/** After how long it cancels a renewal, by default. */
export const RENEWAL_TIMEOUT_MS = 3_000;
