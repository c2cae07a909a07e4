/** Roles by the groups of an identity provider: brought up to date at each sign-in with it. */
import { LeaseError } from '@leasehold/keys-core';
import {
  addPerson,
  changeRole,
  endSessionsOf,
  findPersonId,
  oidcPersonId,
  PEOPLE_TOPIC,
  readForRefusal,
  writeAudit,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { Logger } from '@leasehold/service-kit';
import type { CallState } from '../call-state.ts';
import type { OidcConfig } from '../sign-in-config.ts';
import { grantOf, groupsIn, type Grant } from './group-roles.ts';
import { claimsOf, subjectOf, type Answer } from './oidc-identity.ts';

/** Who gives roles by groups, in the audit. */
const PROVIDER = 'identity provider';
const NAME_LENGTH_MAX = 255;

type Tx = Parameters<typeof changeRole>[0];

interface Deps {
  readonly store: Pick<Store, 'general' | 'hints'>;
  readonly log: Logger;
  readonly call: CallState | undefined;
}

/**
 * Notes in the call what the groups of an answer allow, if groups decide. Somebody whom they allow something is added
 * unless known, under a verified address alone; the sessions of somebody whom they allow nothing end.
 */
export async function takeGroups(deps: Deps, oidc: OidcConfig, answer: Answer): Promise<void> {
  const { groups: mapping } = oidc;
  const { call } = deps;
  if (mapping === undefined || call === undefined) return;
  const claims = claimsOf(answer.tokens.idToken);
  // Some providers name groups in the id_token alone, others only where they are asked for it.
  const named = [claims, answer.profile].map((from) => groupsIn(from, mapping.claim));
  const groups = named.find(({ size }) => size > 0) ?? new Set<string>();
  call.grant = grantOf(mapping.rules, groups) ?? null;
  if (call.grant === null) await refuse(deps, oidc, answer);
  else await addUnlessKnown(deps, call.grant, { oidc, answer });
}

/** Sessions of an earlier sign-in would go on for days. */
async function refuse(
  { store, log, call }: Deps,
  oidc: OidcConfig,
  { tokens }: Answer,
): Promise<void> {
  const subject = subjectOf(tokens.idToken, oidc);
  const { requestId, source } = call ?? {};
  log.warn({ requestId, subject }, 'sign-in refused: no group of LEASEHOLD_OIDC_ROLES');
  const { general } = store;
  const personId = await oidcPersonId(general, { issuer: oidc.issuer, subject });
  if (personId === undefined) return;
  await general.$transaction(async (tx) => {
    const { email, role } = await readForRefusal(tx, personId);
    const endedCount = await endSessionsOf(tx, personId);
    await writeAudit(tx, {
      ...{ actor: email, role, action: 'people.refuseSignIn', source },
      resource: `person:${personId}`,
      detail: { method: 'oidc', reason: 'no group has a role', endedCount },
    });
  });
  store.hints.notify(PEOPLE_TOPIC);
}

async function addUnlessKnown(
  { store, call }: Deps,
  grant: Grant,
  { oidc, answer }: { readonly oidc: OidcConfig; readonly answer: Answer },
): Promise<void> {
  const { email: given, emailVerified, name } = answer.profile;
  if (emailVerified !== true || typeof given !== 'string' || given === '') return;
  const email = given.toLowerCase();
  const subject = subjectOf(answer.tokens.idToken, oidc);
  // Who is known by the account may have another address there now.
  const known = await oidcPersonId(store.general, { issuer: oidc.issuer, subject });
  if (known !== undefined) return;
  if ((await findPersonId(store.general, email)) !== undefined) return;
  const shown = typeof name === 'string' && name !== '' ? name.slice(0, NAME_LENGTH_MAX) : email;
  await store.general.$transaction(async (tx) => {
    const made = await addPerson(tx, { email, name: shown, ...grant, addedBy: PROVIDER });
    if (made === undefined) return;
    await writeAudit(tx, {
      ...{ actor: PROVIDER, role: grant.role, action: 'people.add', source: call?.source },
      resource: `person:${made}`,
      detail: { email, ...grant },
    });
  });
}

/**
 * Gives a person what their groups allow. The last administrator stays one, whatever groups say.
 * @returns whether that was a change.
 */
export async function applyGrant(tx: Tx, personId: string, grant: Grant): Promise<boolean> {
  const { role, namespaces } = grant;
  try {
    const change = await changeRole(tx, personId, role, namespaces);
    if (!change.changed) return false;
    await writeAudit(tx, {
      ...{ actor: PROVIDER, role, action: 'people.setRole', resource: `person:${personId}` },
      detail: { email: change.email, role, namespaces },
    });
    return true;
  } catch (error) {
    if (error instanceof LeaseError && error.code === 'person.last_admin') return false;
    throw error;
  }
}
