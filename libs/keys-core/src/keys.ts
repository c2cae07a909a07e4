/** The keys face: Plane's keys over the kernel. */
export { createKeyService, storeErrorOf, type KeyServiceDeps } from './faces/keys/key-service.ts';
export type { ChooseDrone } from './faces/keys/start-backend.ts';
export * from './faces/keys/key-types.ts';
