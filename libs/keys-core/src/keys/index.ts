/** What apps and other slices may use. */
export { createKeyService, type KeyServiceDeps, storeErrorOf } from './key-service.ts';
export {
  type BackendReport,
  type ConnectInput,
  type NamedConnect,
  type ConnectResult,
  type KeyListInput,
  type KeyPage,
  type KeyRenewResult,
  type KeyService,
  type KeyView,
  type SpawnRequest,
} from './key-types.ts';
export { createReaper, type Reaper, type ReapPass } from './reaper.ts';
export { recordLostBackends } from './sql/lost-backends.ts';
export { type ChooseDrone, NotAtHome, RANDOM_ID_LENGTH } from './connect/start-backend.ts';
