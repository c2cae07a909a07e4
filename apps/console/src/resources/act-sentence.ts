/** What an entry of the audit says, as a sentence with links: "Ada Okafor drained drone-fra-2". Pure. */
import { type AuditAction, printableText } from '@leasehold/keys-core';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { counted } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { type AuditEntry, auditTarget, modeOf } from './audit.ts';

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
      text: actorName ?? OTHERS[actor] ?? actor,
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

const revoked = ({ who, target, kind, mode }: Said): Words => [
  ...[who, ` revoked the ${kind} `, target],
  ...(mode === 'force' ? [' by force'] : []),
];

const blocked = ({ who, target, kind }: Said): Words => [
  ...[who, ` blocked the renewal of the ${kind} `, target],
];

const allowed = ({ who, target, kind }: Said): Words => [
  ...[who, ` allowed the renewal of the ${kind} `, target, ' again'],
];

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
  'keys.revoke': revoked,
  'keys.blockRenewal': blocked,
  'keys.allowRenewal': allowed,
  'leases.revoke': revoked,
  'leases.blockRenewal': blocked,
  'leases.allowRenewal': allowed,
  'environments.revoke': revoked,
  'bulk.start': ({ who, mode, field }) => {
    const verb = BULK_VERBS[textOf(field('action')) ?? ''] ?? 'change';
    const total = Number(field('total'));
    const how = mode === 'force' ? ' by force' : '';
    return [who, ` began to ${verb} ${counted(total, 'grant')}${how}`];
  },
  'bulk.abort': ({ who, field }) => {
    const [done, total] = [Number(field('done')), Number(field('total'))];
    return [who, ` stopped a bulk action after ${String(done)} of ${counted(total, 'grant')}`];
  },
  'backends.terminate': ({ who, target, mode }) => [
    ...[who, ' terminated the backend ', target],
    ...(mode === 'hard' ? [' at once'] : []),
  ],
  'keys.resetFailures': ({ who, target }) => [who, ' reset the failures of the key ', target],
  'webhook.test': ({ who }) => [who, ' sent a test to the webhook'],
  'backends.logs': ({ who, target }) => [who, ' read the output of the backend ', target],
  'reservations.move': ({ who, target, field }) => [
    ...[
      who,
      ' moved the key ',
      target,
      ` to ${textOf(field('toDatacenter')) ?? 'another datacenter'}`,
    ],
  ],
  'reservations.cancelMove': ({ who, target }) => [who, ' cancelled the move of the key ', target],
  'holdOff.end': ({ who }) => [who, ' ended the hold-off'],
  'datacenters.giveUp': ({ who, target }) => [who, ' gave up the datacenter ', target],
  'datacenters.takeBack': ({ who, target }) => [who, ' took back the datacenter ', target],
  'drones.drain': ({ who, target }) => [who, ' drained ', target],
  'drones.undrain': ({ who, target }) => [who, ' ended the drain of ', target],
  'drones.markLost': ({ who, target }) => [who, ' marked ', target, ' lost'],
  'drones.remove': ({ who, target }) => [who, ' removed ', target],
  'tokens.create': ({ who, target }) => [who, ' created the token ', target],
  'tokens.revoke': ({ who, target }) => [who, ' revoked the token ', target],
  'people.invite': ({ who, target, field }) => [
    ...[who, ' invited ', target, ` as ${roleText(field('role'))}`],
  ],
  'people.add': ({ who, target, field }) => [
    ...[who, ' added ', target, ` as ${roleText(field('role'))}`],
  ],
  'people.acceptInvitation': ({ who }) => [who, ' accepted the invitation'],
  'people.resetPassword': ({ who, target }) => [who, ' reset the password of ', target],
  'people.acceptPasswordReset': ({ who }) => [who, ' chose a new password after a reset'],
  'people.setRole': ({ who, target, field }) => [
    ...[who, ' changed the role of ', target, ` to ${roleText(field('role'))}`],
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
    ...[who, ` linked an account of ${textOf(field('provider')) ?? 'an identity provider'}`],
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
