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
  WarmProcesses,
} from './fleet-views.ts';
export {
  type BackendListInput,
  listBackends,
  type NamespaceLimits,
  removeOldFleetRows,
} from './sql/backends.ts';
export { chooseDrone, offerOf } from './sql/choose-drone.ts';
export {
  countDrones,
  type DroneGroup,
  type DroneListInput,
  droneStatus,
  heartbeatAgeMsMax,
  readDroneGroups,
} from './sql/drones.ts';
export { createFleetService, type DroneAct, type FleetService } from './fleet-service.ts';
export { type OutboxFeed, createOutboxFeed } from './drone-session.ts';
