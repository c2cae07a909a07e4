/** What other slices may use. */
export { heldAnswer } from './acquire-answers.ts';
export { errorText } from './coordinator/reap-stale.ts';
export { assertTtl } from './deadlines.ts';
export type { HeldAnswer } from './lease-types.ts';
