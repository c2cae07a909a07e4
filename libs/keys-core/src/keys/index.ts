/** What other slices may use. */
export type { ConnectInput, ConnectResult, KeyService } from './key-types.ts';
export { recordLostBackends } from './sql/lost-backends.ts';
export { NotAtHome, RANDOM_ID_LENGTH } from './start-backend.ts';
