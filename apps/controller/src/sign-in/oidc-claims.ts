/**
 * Who signs in with an identity provider: the issuer and the subject of its id_token. better-auth verifies the
 * signature, the audience, the times and the nonce of an id_token, and goes on without one where a provider sends
 * none; what is missing is checked here. Groups that the id_token does not name are read from userinfo.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { LeaseError } from '@leasehold/keys-core';
import {
  addPerson,
  changeRole,
  endSessionsOf,
  findPersonId,
  oidcAccountId,
  oidcPersonId,
  PEOPLE_TOPIC,
  readForRefusal,
  writeAudit,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import { jsonOf, type Logger } from '@leasehold/service-kit';
import { grantOf, groupsIn, type Grant } from './group-roles.ts';
import type { OidcConfig } from './sign-in-config.ts';

interface Claims {
  readonly iss?: unknown;
  readonly sub?: unknown;
  readonly aud?: unknown;
  readonly azp?: unknown;
  readonly nonce?: unknown;
}

/** What better-auth has of somebody who comes back from the provider. */
interface Answer {
  readonly tokens: {
    readonly idToken?: string | undefined;
    readonly accessToken?: string | undefined;
  };
  /** From userinfo, or the claims of the id_token again where that has an address. */
  readonly profile: Readonly<Record<string, unknown>>;
}

/** The account that an answer of the provider is about. @throws {Error} when the id_token is missing, or not for us. */
export function accountOf(
  oidc: Pick<OidcConfig, 'issuer' | 'clientId'>,
  { tokens }: Pick<Answer, 'tokens'>,
): string {
  return oidcAccountId({ issuer: oidc.issuer, subject: subjectOf(tokens.idToken, oidc) });
}

/** The claims of an id_token that was verified already. */
function claimsOf(idToken: string | undefined): Readonly<Record<string, unknown>> {
  const payload = Buffer.from(idToken?.split('.')[1] ?? '', 'base64url').toString();
  return (jsonOf(payload) ?? {}) as Readonly<Record<string, unknown>>;
}

/** The subject of an id_token that was verified already. @throws {Error} */
export function subjectOf(
  idToken: string | undefined,
  { issuer, clientId }: Pick<OidcConfig, 'issuer' | 'clientId'>,
): string {
  if (idToken === undefined) throw new Error('The identity provider sent no id_token.');
  const { iss, sub, aud, azp, nonce }: Claims = claimsOf(idToken);
  // The discovery document names its issuer, which the id_token has: it must be the one that is configured.
  if (typeof iss !== 'string' || iss.replace(/\/+$/u, '') !== issuer) {
    throw new Error('The id_token is of another issuer than LEASEHOLD_OIDC_ISSUER.');
  }
  if (azp === undefined ? [aud].flat().length > 1 : azp !== clientId) {
    throw new Error('The id_token was issued to another client.');
  }
  if (typeof nonce !== 'string') throw new Error('The id_token has no nonce.');
  if (typeof sub !== 'string' || sub === '') throw new Error('The id_token has no subject.');
  return sub;
}

// Roles by the groups of an identity provider: brought up to date at each sign-in with it.

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
 * @throws {Error} when the groups were needed, and the provider was not reached or failed.
 */
export async function takeGroups(deps: Deps, oidc: OidcConfig, answer: Answer): Promise<void> {
  const { groups: mapping } = oidc;
  const { call } = deps;
  if (mapping === undefined || call === undefined) return;
  // Rules for everybody alone need no groups, which not every provider has.
  const groups = mapping.rules.every(({ group }) => group === null)
    ? new Set<string>()
    : await groupsOf(deps, oidc, { answer, claim: mapping.claim });
  call.grant = grantOf(mapping.rules, groups) ?? null;
  if (call.grant === null) await refuse(deps, oidc, answer);
  else await addUnlessKnown(deps, call.grant, { oidc, answer });
}

/** Some providers name groups in the id_token alone, others only where they are asked for it. */
async function groupsOf(
  { log, call }: Deps,
  oidc: OidcConfig,
  { answer, claim }: { readonly answer: Answer; readonly claim: string },
): Promise<ReadonlySet<string>> {
  const { idToken, accessToken } = answer.tokens;
  const claims = claimsOf(idToken);
  const named = [claims, answer.profile].map((from) => groupsIn(from, claim));
  const groups = named.find(({ size }) => size > 0);
  if (groups !== undefined) return groups;
  // Without an address in the id_token, better-auth has asked for userinfo already.
  if (typeof claims['email'] !== 'string' || claims['email'] === '') return new Set();
  try {
    const subject = subjectOf(idToken, oidc);
    return groupsIn(await readUserinfo(oidc.issuer, { accessToken, subject }), claim);
  } catch (err) {
    log.warn({ requestId: call?.requestId, err }, 'sign-in failed: the groups could not be read');
    throw err;
  }
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
      actor: email,
      role,
      action: 'people.refuseSignIn',
      source,
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
      actor: PROVIDER,
      role: grant.role,
      action: 'people.add',
      source: call?.source,
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
      actor: PROVIDER,
      role,
      action: 'people.setRole',
      resource: `person:${personId}`,
      detail: { email: change.email, role, namespaces },
    });
    return true;
  } catch (error) {
    if (error instanceof LeaseError && error.code === 'person.last_admin') return false;
    throw error;
  }
}

/** What is known of a call while better-auth carries it out: its hooks and its log have no other way to learn it. */
export interface CallState {
  readonly requestId: string;
  readonly source: string | null;
  /** What the groups of the person allow; null: nothing; undefined: groups do not decide. */
  grant?: Grant | null;
}

export const callOfAuth = new AsyncLocalStorage<CallState>();

// The userinfo endpoint of an identity provider: many name the groups of a person only there.

type UserinfoClaims = Readonly<Record<string, unknown>>;

/** For both requests together. */
const ANSWERS_MS_MAX = 5_000;
const ANSWER_BYTES_MAX = 1_024 * 1_024;

/** Statuses that another try would not change: the provider has no claims there, or none for this client. */
const NO_CLAIMS_STATUSES: readonly number[] = [401, 403, 404];

/**
 * The claims about the person whom an access token is for; none where the provider tells none: it has no such
 * endpoint, refuses the token there, or signs its answer.
 * @throws {Error} when there is no answer in time, a failure, or an answer about somebody else than `subject`.
 */
async function readUserinfo(
  issuer: string,
  { accessToken, subject }: { readonly accessToken: string | undefined; readonly subject: string },
): Promise<UserinfoClaims> {
  const signal = AbortSignal.timeout(ANSWERS_MS_MAX);
  const discovery = await fetch(`${issuer}/.well-known/openid-configuration`, { signal });
  const { userinfo_endpoint: endpoint } = await readClaims(discovery);
  if (typeof endpoint !== 'string') return {};
  if (accessToken === undefined) throw new Error('The identity provider sent no access token.');
  const authorization = `Bearer ${accessToken}`;
  const answer = await fetch(endpoint, { signal, headers: { authorization } });
  if (NO_CLAIMS_STATUSES.includes(answer.status) || (answer.ok && isSigned(answer))) {
    await answer.body?.cancel();
    return {};
  }
  const claims = await readClaims(answer);
  // Else it is of another person's token: so says the standard.
  if (claims['sub'] !== subject) throw new Error('Userinfo is about another subject.');
  return claims;
}

function isSigned({ headers }: Response): boolean {
  return /^application\/jwt\b/iu.test(headers.get('content-type') ?? '');
}

/** @throws {Error} for a failure, and for a body that is too large or no JSON object. */
async function readClaims(response: Response): Promise<UserinfoClaims> {
  const { ok, status, url } = response;
  if (!ok) {
    await response.body?.cancel();
    throw new Error(`${url} answered ${String(status)}.`);
  }
  const value = jsonOf(await readText(response));
  if (typeof value !== 'object' || value === null) throw new Error(`${url} answered no object.`);
  return value as UserinfoClaims;
}

/** @throws {Error} for a body that is too large. */
async function readText({ body, url }: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.byteLength;
    if (bytes > ANSWER_BYTES_MAX) throw new Error(`The answer of ${url} is too large.`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
