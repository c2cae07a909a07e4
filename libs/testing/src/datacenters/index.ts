/**
 * Several datacenters on one machine, for tests and for people who try them: this entry does not load
 * Vitest.
 */
export { clustersIn, databasesIn, type DatabaseOf } from './databases.ts';
export type { Datacenter, DatacenterRole } from './datacenter.ts';
export {
  DEMO_PROGRAMS,
  startDatacenters,
  type Datacenters,
  type DatacentersOptions,
} from './datacenters.ts';
export { startEtcdAcross } from './etcd-across.ts';
export { createWideArea, urlOf, type Cut, type WideArea } from './wide-area.ts';
