/**
 * The parts of a whole Leasehold, for runners other than Vitest: this entry does not load
 * Vitest, whose `expect` is not to be mixed with another one in a process.
 */
export { startEtcd, type EtcdOptions, type EtcdTls, type TestEtcd } from './etcd.ts';
export { failCallback } from './failing-callback.ts';
export {
  startFaultProxy,
  startUrlProxy,
  type Direction,
  type FaultProxy,
} from './network/fault-proxy.ts';
export { freePort } from './network/free-port.ts';
export {
  childrenOf,
  commandLineOf,
  descendantsOf,
  isRunning,
  processesWith,
  signalProcess,
} from './machine-processes.ts';
export { programFile } from './program-file.ts';
export { consoleOrigin, openStage, Stage } from './stage/stage.ts';
export type { DroneOptions, GatewayOptions, GatewayProcess, StageOptions } from './stage/stage.ts';
export { StageDrone } from './stage/stage-drone.ts';
export type { ClockFault } from './stage/skewed-clocks.ts';
export { startPodman, TEST_ULIMITS, type PodmanOptions, type TestPodman } from './podman.ts';
export { quickestMs } from './quickest.ts';
export { repetitions, seed, someOf } from './chance.ts';
export { startPgBouncer, type PgBouncerOptions, type TestPgBouncer } from './postgres/pgbouncer.ts';
export { createSmallDisk, type SmallDisk } from './postgres/small-disk.ts';
export { copyDatabase, type DatabaseCopy } from './postgres/database-copy.ts';
export { replaceClock, SHIFTED_CLOCK, type ReplacedClock } from './postgres/replaced-clock.ts';
export { copyTemplate, type TestDatabase } from './postgres/template-copy.ts';
export { startTestCluster, type TestCluster } from './postgres/test-cluster.ts';
export { startProcess, type ProcessSpec, type TestProcess } from './test-process.ts';
export { startTraceReceiver, type ReceivedSpan, type TraceReceiver } from './trace-receiver.ts';
export { waitUntil, type WaitOptions } from './wait-until.ts';
export {
  bundleOf,
  copyDrone,
  startControllerProcess,
  type ControllerProcess,
} from './leasehold-processes.ts';
