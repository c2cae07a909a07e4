/** Every act that the audit records: the procedure that did it, or a name of its own without one. */
export const AUDIT_ACTIONS = [
  'keys.revoke',
  'keys.blockRenewal',
  'keys.allowRenewal',
  'keys.resetFailures',
  'leases.revoke',
  'leases.blockRenewal',
  'leases.allowRenewal',
  'environments.revoke',
  'bulk.start',
  'bulk.abort',
  'backends.terminate',
  'backends.logs',
  'reservations.move',
  'reservations.cancelMove',
  'holdOff.end',
  'datacenters.giveUp',
  'datacenters.takeBack',
  'drones.drain',
  'drones.undrain',
  'drones.markLost',
  'drones.remove',
  'tokens.create',
  'tokens.revoke',
  'people.invite',
  'people.acceptInvitation',
  'people.resetPassword',
  'people.acceptPasswordReset',
  'people.setRole',
  'people.disable',
  'people.enable',
  'people.signIn',
  'people.linkAccount',
  'people.signOutEverywhere',
  'people.changePassword',
  'people.lockOut',
  'people.makeAdmin',
  'webhook.test',
] as const;

export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** What is recorded of signing in and out, beside what operators do. */
export const SIGN_IN_ACTIONS: readonly AuditAction[] = [
  'people.signIn',
  'people.signOutEverywhere',
  'people.lockOut',
];
