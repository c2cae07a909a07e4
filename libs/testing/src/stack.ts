/**
 * The parts of a whole Leasehold, for runners other than Vitest: this entry does not load
 * Vitest, whose `expect` is not to be mixed with another one in a process.
 */
export { startEtcd, type EtcdOptions, type TestEtcd } from './etcd.ts';
export { failCallback } from './failing-callback.ts';
export { startFaultProxy, type FaultProxy } from './network/fault-proxy.ts';
export { freePort } from './network/free-port.ts';
export { programFile } from './program-file.ts';
export { consoleOrigin, openStage, Stage, type StageOptions } from './stage/stage.ts';
export { StageDrone } from './stage/stage-drone.ts';
export type { ClockFault } from './stage/skewed-clocks.ts';
export { copyDatabase, type DatabaseCopy } from './postgres/database-copy.ts';
export { startPgBouncer, type TestPgBouncer } from './postgres/pgbouncer.ts';
export { replaceClock, SHIFTED_CLOCK, type ReplacedClock } from './postgres/replaced-clock.ts';
export { copyTemplate, type TestDatabase } from './postgres/template-copy.ts';
export { startTestCluster, type TestCluster } from './postgres/test-cluster.ts';
export { startProcess, type TestProcess } from './test-process.ts';
export { waitUntil } from './wait-until.ts';
export { bundleOf, startControllerProcess, type ControllerProcess } from './leasehold-processes.ts';
