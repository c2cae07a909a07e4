import {
  type AuditAction,
  freezePlaceText,
  parseResourceText,
  printableText,
  resourceText,
} from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { countText, shortId } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { keyOfAddress, keyText } from './names.ts';

// What an entry of the audit says, as a sentence with links: "Ada Okafor (ada@example.com) drained drone-fra-2".

/** A part of a sentence; one with an address is a link. */
interface SentencePart {
  readonly text: string;
  readonly href: string | null;
}

export type Act = Pick<AuditEntry, 'actor' | 'actorName' | 'action' | 'resource'> & {
  readonly detail?: unknown;
};

/** What can be said about an act: who, on what, and the fields of its detail. */
interface Said {
  readonly who: SentencePart;
  readonly target: SentencePart;
  /** What it was done to, in a word: `key`. */
  readonly kind: string;
  readonly mode: string | undefined;
  readonly field: (name: string) => unknown;
}

type Words = readonly (string | SentencePart)[];

/** The parts of the sentence. Those of an action that this version does not know name it as it is. */
export function actSentence(act: Act): readonly SentencePart[] {
  const { kind, label, href } = auditTarget(act);
  const { actor, actorName, detail } = act;
  const said: Said = {
    who: {
      text: actorText(actor, actorName),
      href: routes.audit({ q: `actor:"${actor}"` }),
    },
    target: { text: label, href },
    kind: kind === 'reservation' ? 'key' : kind,
    mode: modeOf(act),
    field: (name) => (isFields(detail) ? detail[name] : undefined),
  };
  const sentence = hasSentence(act.action)
    ? SENTENCES[act.action](said)
    : [said.who, ` did ${act.action} to `, said.target];
  return sentence.map((part) => (typeof part === 'string' ? { text: part, href: null } : part));
}

/** The sentence without its links; what cannot be seen in it is escaped. */
export function actText(act: Act): string {
  return printableText(
    actSentence(act)
      .map(({ text }) => text)
      .join(''),
  );
}

const sayRevoked = ({ who, target, kind, mode }: Said): Words => [
  who,
  ` revoked the ${kind} `,
  target,
  ...(mode === 'force' ? [' by force'] : []),
];

const sayBlocked = ({ who, target, kind }: Said): Words => [
  who,
  ` blocked the renewal of the ${kind} `,
  target,
];

const sayAllowed = ({ who, target, kind }: Said): Words => [
  who,
  ` allowed the renewal of the ${kind} `,
  target,
  ' again',
];

/** `Ada Okafor (ada@example.com)`: people choose their names, and nobody must appear as somebody else. */
function actorText(actor: string, name: string | null): string {
  if (name === null || name === '' || name === actor) return OTHERS[actor] ?? actor;
  return `${name} (${actor})`;
}

/** Who acts besides people and tokens, at the beginning of a sentence. */
const OTHERS: Readonly<Record<string, string>> = {
  'command line': 'The command line',
  controller: 'A controller',
  leasehold: 'Leasehold',
};

/** What a bulk action does to each of its grants. */
const BULK_VERBS: Readonly<Record<string, string>> = {
  revoke: 'revoke',
  blockRenewal: 'block the renewal of',
  allowRenewal: 'allow the renewal of',
};

const SENTENCES: Readonly<Record<AuditAction, (said: Said) => Words>> = {
  'keys.revoke': sayRevoked,
  'keys.blockRenewal': sayBlocked,
  'keys.allowRenewal': sayAllowed,
  'leases.revoke': sayRevoked,
  'leases.blockRenewal': sayBlocked,
  'leases.allowRenewal': sayAllowed,
  'leases.setPermits': ({ who, field }) => [
    who,
    ` set the number of permits of ${String(field('namespace'))}`,
  ],
  'environments.revoke': sayRevoked,
  'environments.freeze': ({ who, target, field }) => [
    who,
    ' froze ',
    target,
    ...(field('recurrence') === undefined ? [] : [', again and again']),
    ...(field('stopRunning') === true ? [', and asked for its holders to be told to stop'] : []),
  ],
  'environments.unfreeze': ({ who, target }) => [who, ' ended a freeze of ', target],
  'environments.overrideFreeze': ({ who, target }) => [
    who,
    ' acquired the environment ',
    target,
    ' although it was frozen',
  ],
  'environments.supersede': ({ who, target, field }) => [
    who,
    ' superseded older requests for the environment ',
    target,
    ` for ${textOf(field('holder')) ?? 'a newer one'}`,
  ],
  'bulk.start': ({ who, mode, field }) => {
    const verb = BULK_VERBS[textOf(field('action')) ?? ''] ?? 'change';
    const total = Number(field('total'));
    const how = mode === 'force' ? ' by force' : '';
    return [who, ` began to ${verb} ${countText(total, 'grant')}${how}`];
  },
  'bulk.abort': ({ who, field }) => {
    const [done, total] = [Number(field('done')), Number(field('total'))];
    return [who, ` stopped a bulk action after ${String(done)} of ${countText(total, 'grant')}`];
  },
  'backends.terminate': ({ who, target, mode }) => [
    who,
    ' terminated the backend ',
    target,
    ...(mode === 'hard' ? [' at once'] : []),
  ],
  'keys.resetFailures': ({ who, target }) => [who, ' reset the failures of the key ', target],
  'webhook.test': ({ who }) => [who, ' sent a test to the webhook'],
  'backends.logs': ({ who, target }) => [who, ' read the output of the backend ', target],
  'reservations.move': ({ who, target, field }) => [
    who,
    ' moved the key ',
    target,
    ` to ${textOf(field('toDatacenter')) ?? 'another datacenter'}`,
  ],
  'reservations.cancelMove': ({ who, target }) => [who, ' cancelled the move of the key ', target],
  'holdOff.end': ({ who }) => [who, ' ended the hold-off'],
  'datacenters.giveUp': ({ who, target }) => [who, ' gave up the datacenter ', target],
  'datacenters.takeBack': ({ who, target }) => [who, ' took back the datacenter ', target],
  'gateway.revoke': ({ who, target, field }) => {
    const user = textOf(field('user'));
    const isEverywhere = field('namespace') === '' && field('name') === undefined;
    const where = isEverywhere ? ['in all namespaces'] : ['in ', target];
    return [
      who,
      ` revoked the gateway tokens ${user === undefined ? '' : `of ${user} `}`,
      ...where,
    ];
  },
  'gateway.rotate': ({ who, field }) => [
    who,
    ' changed the key that signs gateway tokens',
    ...(field('now') === true ? [', and ended all tokens'] : []),
  ],
  'drones.drain': ({ who, target }) => [who, ' drained ', target],
  'drones.undrain': ({ who, target }) => [who, ' ended the drain of ', target],
  'drones.markLost': ({ who, target }) => [who, ' marked ', target, ' lost'],
  'drones.remove': ({ who, target }) => [who, ' removed ', target],
  'tokens.create': ({ who, target }) => [who, ' created the token ', target],
  'tokens.revoke': ({ who, target }) => [who, ' revoked the token ', target],
  'people.invite': ({ who, target, field }) => [
    who,
    ' invited ',
    target,
    ` as ${roleText(field('role'))}`,
  ],
  'people.add': ({ who, target, field }) => [
    who,
    ' added ',
    target,
    ` as ${roleText(field('role'))}`,
  ],
  'people.acceptInvitation': ({ who }) => [who, ' accepted the invitation'],
  'people.resetPassword': ({ who, target }) => [who, ' reset the password of ', target],
  'people.acceptPasswordReset': ({ who }) => [who, ' chose a new password after a reset'],
  'people.setRole': ({ who, target, field }) => [
    who,
    ' changed the role of ',
    target,
    ` to ${roleText(field('role'))}`,
  ],
  'people.disable': ({ who, target }) => [who, ' disabled ', target],
  'people.enable': ({ who, target, field }) =>
    field('wasDisabled') === false
      ? [who, ' unlocked the sign-in of ', target]
      : [who, ' enabled ', target, ' again'],
  'people.signIn': ({ who, field }) => [
    who,
    field('method') === 'oidc' ? ' signed in with single sign-on' : ' signed in',
  ],
  'people.refuseSignIn': ({ who }) => [who, ' was refused: no group has a role'],
  'people.linkAccount': ({ who, field }) => [
    who,
    ` linked an account of ${textOf(field('provider')) ?? 'an identity provider'}`,
  ],
  // A person that does it to another one is recorded with that one's address.
  'people.signOutEverywhere': ({ who, target, field }) =>
    field('email') === undefined
      ? [who, ' signed out everywhere']
      : [who, ' signed ', target, ' out everywhere'],
  'people.changePassword': ({ who }) => [who, ' changed the password'],
  'people.lockOut': ({ target }) => [target, ' was locked out after too many failed sign-ins'],
  'people.makeAdmin': ({ who, target }) => [who, ' made ', target, ' an administrator'],
};

function hasSentence(action: string): action is AuditAction {
  return Object.hasOwn(SENTENCES, action);
}

function isFields(detail: unknown): detail is Readonly<Record<string, unknown>> {
  return typeof detail === 'object' && detail !== null;
}

function roleText(role: unknown): string {
  const known = Object.entries(ROLE_LABELS).find(([name]) => name === role);
  return known?.[1].toLowerCase() ?? textOf(role) ?? 'something else';
}

function textOf(field: unknown): string | undefined {
  return typeof field === 'string' ? field : undefined;
}

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
  return { kind, label: kind === 'freeze' ? frozenLabel(detail) : id, href: null };
}

/** What was frozen: an environment, or all of a namespace. */
function frozenLabel({ namespace, name }: Readonly<Record<string, unknown>>): string {
  const frozen = { namespace: textOf(namespace) ?? '', name: textOf(name) ?? null };
  return freezePlaceText(frozen);
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
  'leases.setPermits': { label: 'Set permits' },
  'environments.revoke': { label: 'Revoked', of: 'an environment' },
  'environments.freeze': { label: 'Froze environments' },
  'environments.unfreeze': { label: 'Ended freeze' },
  'environments.overrideFreeze': { label: 'Overrode freeze' },
  'environments.supersede': { label: 'Superseded requests' },
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
  'gateway.revoke': { label: 'Revoked', of: 'gateway tokens' },
  'gateway.rotate': { label: 'Changed gateway key' },
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
