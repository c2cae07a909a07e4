/** What apps and other slices may use. */
export type {
  BackendDetail,
  BackendUsage,
  BackendStateView,
  BackendView,
  DroneView,
  RemovedDrone,
  MachineLoad,
  // Named by the types of the API, which the client's package declares.
  OfferedProgram,
} from './fleet-views.ts';
export { type BackendListInput, listBackends, type NamespaceLimits } from './sql/backends.ts';
export { chooseDrone } from './sql/choose-drone.ts';
export {
  countDrones,
  type DroneGroup,
  type DroneListInput,
  droneStatus,
  heartbeatAgeMsMax,
  readDroneGroups,
} from './sql/drones.ts';
export { removeOldFleetRows } from './sql/fleet-retention.ts';
export { offerOf } from './spawn-allowance.ts';
export { createFleetService } from './fleet-service.ts';
export { type OutboxFeed, createOutboxFeed } from './outbox-feed.ts';
export type { DroneAct, FleetService } from './fleet-types.ts';
