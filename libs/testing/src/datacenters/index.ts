/**
 * Several datacenters on one machine, for tests and for people who try them: this entry does not load
 * Vitest.
 */
export {
  DEMO_PROGRAMS,
  startDatacenters,
  type Datacenters,
  type DatacentersOptions,
} from './datacenters.ts';
export { startEtcdAcross } from './etcd-across.ts';
export { createWideArea, type Cut, type WideArea } from './wide-area.ts';
