/** What may be done to many grants at once. */
export const BULK_ACTIONS = ['revoke', 'blockRenewal', 'allowRenewal'] as const;
export type BulkAction = (typeof BULK_ACTIONS)[number];

/** `interrupted`: its controller died and no other has taken it over yet. */
export const BULK_STATES = ['running', 'interrupted', 'aborted', 'done'] as const;
export type BulkState = (typeof BULK_STATES)[number];
