/**
 * Leasehold for unit tests: `import { createTestLeasehold } from '@leasehold/client/testing'`. It needs no
 * server, and time is the test's own.
 */
export {
  createTestLeasehold,
  type TestClientOptions,
  type TestLeasehold,
  type TestFreeze,
  type TestRevoke,
  type TestScope,
} from './test-leasehold.ts';
export type { TestEvent, TestHolding } from './registry.ts';
