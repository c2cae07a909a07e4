/** The keys face: Plane's keys over the kernel. */
export { createKeyService, storeErrorOf, type KeyServiceDeps } from './keys/key-service.ts';
export type { ChooseDrone } from './keys/start-backend.ts';
export {
  type ConnectInput,
  type SpawnRequest,
  type ConnectResult,
  type KeyView,
  KEY_SORTS,
  type KeyListInput,
  type KeyPage,
  type KeyRenewResult,
  type BackendReport,
  type KeyService,
} from './keys/key-types.ts';
export type {
  Acted,
  Caller,
  EventView,
  GrantTimes,
  Page,
  WaiterView,
} from './kernel/face-types.ts';
