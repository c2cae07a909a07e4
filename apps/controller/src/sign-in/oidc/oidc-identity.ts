/**
 * Who signs in with an identity provider: the issuer and the subject of its id_token. better-auth verifies the
 * signature, the audience, the times and the nonce of an id_token, and goes on without one where a provider sends
 * none; what is missing is checked here.
 */
import { bindUnboundAccount, oidcAccountId } from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import { jsonOf } from '@leasehold/service-kit';
import type { OidcConfig } from '../sign-in-config.ts';

interface Claims {
  readonly iss?: unknown;
  readonly sub?: unknown;
  readonly aud?: unknown;
  readonly azp?: unknown;
  readonly nonce?: unknown;
}

/** What better-auth has of somebody who comes back from the provider. */
export interface Answer {
  readonly tokens: { readonly idToken?: string | undefined };
  readonly profile: Readonly<Record<string, unknown>>;
}

/**
 * The account that an answer of the provider is about. One from before issuers were kept is bound to its issuer.
 * @throws {Error} when the id_token is missing, or not for us.
 */
export async function accountOf(
  store: Pick<Store, 'general'>,
  oidc: Pick<OidcConfig, 'issuer' | 'clientId'>,
  { tokens, profile }: Answer,
): Promise<string> {
  const subject = subjectOf(tokens.idToken, oidc);
  const of = { issuer: oidc.issuer, subject };
  if (profile['emailVerified'] === true && typeof profile['email'] === 'string') {
    await bindUnboundAccount(store.general, of, profile['email']);
  }
  return oidcAccountId(of);
}

/** The claims of an id_token that was verified already. */
export function claimsOf(idToken: string | undefined): Readonly<Record<string, unknown>> {
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
