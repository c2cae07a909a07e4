/** The keys face: Plane's keys over the kernel. */
export { createKeyService, storeErrorOf, type KeyServiceDeps } from './faces/keys/key-service.ts';
export type { ChooseDrone } from './faces/keys/start-backend.ts';
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
} from './faces/keys/key-types.ts';
export type { Acted, Caller, EventView, GrantTimes, Page, WaiterView } from './faces/face-types.ts';
