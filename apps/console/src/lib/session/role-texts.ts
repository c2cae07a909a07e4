import type { Role } from '@leasehold/keys-core';

/** What somebody with a role may do, in a sentence each. */
export const ROLE_TEXTS: Record<Role, string> = {
  viewer: 'Sees everything but the audit and who has access. Changes nothing.',
  client: 'Sees what a viewer sees, and acquires and releases keys, leases and environments.',
  operator:
    'Also revokes, blocks and allows renewals, drains drones, stops backends, and reads the audit.',
  admin: 'Also makes and revokes API tokens, and decides who may sign in, and with which role.',
  drone: 'Runs the backends of one drone, and nothing else.',
  peer: 'The controllers of another datacenter, which forward the requests of their callers.',
};

/** `Viewer`, `API client`: as people read it. */
export const ROLE_LABELS: Record<Role, string> = {
  viewer: 'Viewer',
  client: 'Client',
  operator: 'Operator',
  admin: 'Administrator',
  drone: 'Drone',
  peer: 'Other datacenter',
};
