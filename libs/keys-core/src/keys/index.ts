/** What apps and other slices may use. */
export { waitUntilReady } from './connect-answers.ts';
export { createKeyService, storeErrorOf } from './key-service.ts';
export {
  type ConnectInput,
  type NamedConnect,
  type ConnectResult,
  type KeyFailuresView,
  type KeyListInput,
  type KeyPage,
  type KeyRenewResult,
  type KeyService,
  type KeyView,
  type SpawnRequest,
} from './key-types.ts';
export { createIdleStopper, createReaper } from './reaper.ts';
export { type BackendUse, touchBackends, type UsedBackend } from './sql/idle-stop.ts';
export { countCrashLoops, type CrashLoops } from './sql/key-failures.ts';
export { recordLostBackends, terminateAllOf } from './sql/key-backend.ts';
export { NotAtHome, RANDOM_ID_LENGTH } from './start-backend.ts';
