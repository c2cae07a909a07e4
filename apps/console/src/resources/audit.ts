import { type AuditAction, parseResourceText, resourceText } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { shortId } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { keyOfAddress, keyText } from './names.ts';

export type AuditEntry = Outputs['audit']['list']['items'][number];

/** What an act was done to: what it is, what people call it, and the page of it, where there is one. */
interface AuditTarget {
  readonly kind: string;
  readonly label: string;
  readonly href: string | null;
}

/** Pure. */
export function auditTarget(entry: Pick<AuditEntry, 'resource'> & { readonly detail?: unknown }) {
  const { resource } = entry;
  const detail = detailOf(entry);
  const colon = resource.indexOf(':');
  const kind = colon === -1 ? 'other' : resource.slice(0, colon);
  const id = colon === -1 ? resource : resource.slice(colon + 1);
  return targetOf({ kind, id, detail });
}

function targetOf({
  kind,
  id,
  detail,
}: {
  readonly kind: string;
  readonly id: string;
  readonly detail: Readonly<Record<string, unknown>>;
}): AuditTarget {
  const { face, namespace, name, email } = detail;
  if (typeof face === 'string' && typeof namespace === 'string' && typeof name === 'string') {
    const ref = { namespace, name };
    return { kind: face, label: resourceText(ref), href: routeOf(face, ref) };
  }
  const reserved = reservedKeyOf(kind, id, detail);
  if (reserved !== undefined) {
    return { kind: 'reservation', label: keyText(reserved), href: routes.reservation(reserved) };
  }
  if (kind === 'drone') return { kind, label: id, href: routes.drone(id) };
  if (kind === 'backend') return { kind, label: id, href: routes.backend(id) };
  if (kind === 'token') {
    return { kind, label: typeof name === 'string' ? name : labelOfId(id), href: routes.access() };
  }
  if (kind === 'person') {
    const label = typeof email === 'string' ? email : labelOfId(id);
    return { kind, label, href: routes.access({ tab: 'people' }) };
  }
  return { kind, label: id, href: null };
}

/** What was moved: a key by its full name, any other list as JSON. */
function reservedKeyOf(
  kind: string,
  id: string,
  detail: Readonly<Record<string, unknown>>,
): readonly string[] | undefined {
  if (kind === 'reservation') {
    const addressed = keyOfAddress(id);
    return 'key' in addressed ? addressed.key : undefined;
  }
  if (kind !== 'key' || typeof detail['reservationId'] !== 'string') return undefined;
  const { namespace, name } = parseResourceText(id);
  return [namespace, name];
}

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/u;

/** The end of a UUID, which nobody reads whole; the entry itself has all of it. */
function labelOfId(id: string): string {
  return UUID.test(id) ? shortId(id) : id;
}

/** The detail of an entry, as fields. */
function detailOf(entry: { readonly detail?: unknown }): Readonly<Record<string, unknown>> {
  const { detail } = entry;
  return typeof detail === 'object' && detail !== null
    ? (detail as Readonly<Record<string, unknown>>)
    : {};
}

/** How it was done, where an act can be done in more than one way: `force`. */
export function modeOf(entry: { readonly detail?: unknown }): string | undefined {
  const { mode } = detailOf(entry);
  return typeof mode === 'string' ? mode : undefined;
}

// What an action of the audit is called in lists and filters.

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
  return hasLabel(action) ? ACTIONS[action].label : action;
}

/** `Blocked renewal of a key`: no two actions share it. */
export function actionName(action: AuditAction): string {
  const { label, of } = ACTIONS[action];
  return of === undefined ? label : `${label} ${of}`;
}

function hasLabel(action: string): action is AuditAction {
  return Object.hasOwn(ACTIONS, action);
}
