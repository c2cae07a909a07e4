/** What apps and other slices may use. */
export type {
  BackendDetail,
  BackendStateView,
  BackendView,
  DroneView,
  OfferedProgram,
  OutboxAction,
} from './fleet-views.ts';
export {
  type BackendListInput,
  getBackend,
  listBackends,
  type NamespaceLimits,
} from './sql/backends.ts';
export { chooseDrone, type DroneChoice, type DroneChoiceInput } from './sql/choose-drone.ts';
export {
  openSession,
  recordHeartbeat,
  type SessionRef,
  type SessionRequest,
} from './sql/drone-sessions.ts';
export {
  countDrones,
  type DroneListInput,
  getDrone,
  listDrones,
  setDraining,
  setLost,
} from './sql/drones.ts';
export { type FleetRetention, removeOldFleetRows } from './sql/fleet-retention.ts';
export { acknowledgeAction, type Outbox, readOutboxes } from './sql/outbox.ts';
export { createFleetService } from './fleet-service.ts';
export { type OutboxFeed, createOutboxFeed } from './outbox-feed.ts';
export type { DroneAct, FleetService } from './fleet-types.ts';
