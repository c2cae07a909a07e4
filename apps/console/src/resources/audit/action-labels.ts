/** What an action of the audit is called in lists and filters. */
import type { AuditAction } from '@leasehold/keys-core';

interface ActionLabel {
  readonly label: string;
  /** Where two actions have the same label: what this one was done to. */
  readonly of?: string;
}

const ACTIONS: Readonly<Record<AuditAction, ActionLabel>> = {
  'keys.revoke': { label: 'Revoked', of: 'a key' },
  'keys.blockRenewal': { label: 'Blocked renewal', of: 'of a key' },
  'keys.allowRenewal': { label: 'Allowed renewal', of: 'of a key' },
  'leases.revoke': { label: 'Revoked', of: 'a lease' },
  'leases.blockRenewal': { label: 'Blocked renewal', of: 'of a lease' },
  'leases.allowRenewal': { label: 'Allowed renewal', of: 'of a lease' },
  'environments.revoke': { label: 'Revoked', of: 'an environment' },
  'bulk.start': { label: 'Started bulk action' },
  'bulk.abort': { label: 'Aborted bulk action' },
  'backends.terminate': { label: 'Stopped backend' },
  'webhook.test': { label: 'Test', of: 'of the webhook' },
  'keys.resetFailures': { label: 'Reset failures', of: 'of a key' },
  'backends.logs': { label: 'Read output' },
  'reservations.move': { label: 'Moved key' },
  'reservations.cancelMove': { label: 'Cancelled move' },
  'holdOff.end': { label: 'Ended hold-off' },
  'datacenters.giveUp': { label: 'Gave up datacenter' },
  'datacenters.takeBack': { label: 'Took back datacenter' },
  'drones.drain': { label: 'Drained drone' },
  'drones.undrain': { label: 'Undrained drone' },
  'drones.markLost': { label: 'Marked drone lost' },
  'drones.remove': { label: 'Removed drone' },
  'tokens.create': { label: 'Created token' },
  'tokens.revoke': { label: 'Revoked', of: 'a token' },
  'people.invite': { label: 'Invited' },
  'people.add': { label: 'Added by single sign-on' },
  'people.acceptInvitation': { label: 'Accepted invitation' },
  'people.resetPassword': { label: 'Reset password' },
  'people.acceptPasswordReset': { label: 'Chose a new password' },
  'people.setRole': { label: 'Changed role' },
  'people.disable': { label: 'Disabled' },
  'people.enable': { label: 'Enabled or unlocked' },
  'people.signIn': { label: 'Signed in' },
  'people.refuseSignIn': { label: 'Refused to sign in' },
  'people.linkAccount': { label: 'Linked account' },
  'people.signOutEverywhere': { label: 'Signed out everywhere' },
  'people.changePassword': { label: 'Changed password' },
  'people.lockOut': { label: 'Locked out' },
  'people.makeAdmin': { label: 'Made administrator' },
};

/** `Blocked renewal`, where the row names what. An action of a later version is shown as it is. */
export function actionLabel(action: string): string {
  return isKnown(action) ? ACTIONS[action].label : action;
}

/** `Blocked renewal of a key`: no two actions share it. */
export function actionName(action: AuditAction): string {
  const { label, of } = ACTIONS[action];
  return of === undefined ? label : `${label} ${of}`;
}

function isKnown(action: string): action is AuditAction {
  return Object.hasOwn(ACTIONS, action);
}
