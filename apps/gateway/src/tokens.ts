/**
 * Who may reach a key. A token is signed, so the gateway verifies it without a question; that its time is over or that
 * it was revoked is looked at with each request, by what the controller said last.
 */
import {
  LIMITS,
  type GatewayKey,
  type GatewayRevocation,
  type GatewayTokenClaims,
} from '@leasehold/keys-core';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { compactVerify, decodeProtectedHeader, importJWK } from 'jose';
import { z } from 'zod';
import { Refusal, type RefusalCode } from './refusal.ts';

const ALGORITHMS = ['EdDSA', 'Ed25519'];
/** Longer ones would not pass as a header. */
const TOKEN_BYTES_MAX = 8_192;
/** Verified tokens that are kept: a browser sends one with each request of a page. */
const VERIFIED_MAX = 10_000;

const claimsSchema = z.object({
  sub: z.string().min(1).max(LIMITS.gatewayUserBytesMax),
  ns: z.string(),
  key: z.string().min(1),
  tag: z.string(),
  claims: z.record(z.string(), z.unknown()).optional(),
  grant: z.string().optional(),
  start: z.string().optional(),
  iat: z.number(),
  exp: z.number(),
  jti: z.string(),
});

/** What a controller says about tokens, and when it was asked. */
export interface TokenNews {
  readonly keys: readonly GatewayKey[];
  readonly revocations: readonly GatewayRevocation[] | null;
  readonly revision: string;
  /** The database's clock when it answered. */
  readonly asOf: number;
}

/** A token whose signature is right. */
export class VerifiedToken {
  readonly claims: GatewayTokenClaims;
  readonly text: string;
  readonly kid: string;
  /** The revision in which it was looked for among the revocations. */
  revision = '';
  isRevoked = false;

  constructor(text: string, kid: string, claims: GatewayTokenClaims) {
    this.text = text;
    this.kid = kid;
    this.claims = claims;
  }
}

/** Verifies tokens. Knows no key before its first {@link Tokens.learn}. */
export class Tokens {
  readonly #clock: Pick<TickingClock, 'nowMs'>;
  readonly #keys = new Map<string, string>();
  readonly #verified = new Map<string, VerifiedToken>();
  #revocations: readonly GatewayRevocation[] = [];
  #revision: string | undefined;
  /** What is added to this machine's clock to get an upper bound of the database's. */
  #aheadMs: number | undefined;

  constructor(clock: Pick<TickingClock, 'nowMs'>) {
    this.#clock = clock;
  }

  /** The revision of the revocations that are known. */
  get revision(): string | undefined {
    return this.#revision;
  }

  /** Whether a controller has been asked with success. */
  get isReady(): boolean {
    return this.#aheadMs !== undefined;
  }

  /** @param sentAtMs when the question was sent: the database was read later. */
  learn({ keys, revocations, revision, asOf }: TokenNews, sentAtMs: number): void {
    this.#keys.clear();
    for (const { kid, x } of keys) this.#keys.set(kid, x);
    if (revocations !== null) this.#revocations = revocations;
    this.#revision = revision;
    this.#aheadMs = asOf - sentAtMs;
  }

  /** Whether a token is signed with a key that is not known, or not yet. */
  isOfUnknownKey(token: string): boolean {
    const kid = kidOf(token);
    return kid !== undefined && !this.#keys.has(kid);
  }

  /** Whether a text may be one of the gateway's tokens, and not one of the program's. */
  isOurs(token: string): boolean {
    const kid = kidOf(token);
    return kid !== undefined && this.#keys.has(kid);
  }

  /** @throws {Refusal} when it is not signed by a known key, or is not in force. */
  async verify(token: string): Promise<VerifiedToken> {
    const verified = this.#verified.get(token) ?? (await this.#read(token));
    const problem = this.problemOf(verified);
    if (problem !== undefined) throw new Refusal(problem);
    return verified;
  }

  /** Why a token is not in force now; undefined while it is. */
  problemOf(token: VerifiedToken): RefusalCode | undefined {
    if (!this.#keys.has(token.kid)) return 'gateway.token_invalid';
    if (this.#aheadMs === undefined) return 'gateway.cut_off';
    if (this.#clock.nowMs() + this.#aheadMs >= token.claims.exp * 1_000) {
      return 'gateway.token_expired';
    }
    if (token.revision !== this.#revision) this.#lookUp(token);
    return token.isRevoked ? 'gateway.token_revoked' : undefined;
  }

  /** For how many more seconds a token is in force. */
  secondsLeft({ claims }: VerifiedToken): number {
    return Math.max(
      0,
      Math.floor(claims.exp - (this.#clock.nowMs() + (this.#aheadMs ?? 0)) / 1_000),
    );
  }

  async #read(token: string): Promise<VerifiedToken> {
    const kid = kidOf(token);
    const x = kid === undefined ? undefined : this.#keys.get(kid);
    if (kid === undefined || x === undefined) throw new Refusal('gateway.token_invalid');
    try {
      const key = await importJWK({ kty: 'OKP', crv: 'Ed25519', x }, 'EdDSA');
      const { payload } = await compactVerify(token, key, { algorithms: ALGORITHMS });
      const claims = claimsSchema.parse(JSON.parse(new TextDecoder().decode(payload)));
      const verified = new VerifiedToken(token, kid, claims);
      this.#keep(verified);
      return verified;
    } catch (cause) {
      throw new Refusal('gateway.token_invalid', { cause });
    }
  }

  #keep(verified: VerifiedToken): void {
    // The oldest makes place: a token costs one verification when it comes again.
    if (this.#verified.size >= VERIFIED_MAX) {
      const oldest = this.#verified.keys().next().value;
      if (oldest !== undefined) this.#verified.delete(oldest);
    }
    this.#verified.set(verified.text, verified);
  }

  #lookUp(token: VerifiedToken): void {
    token.isRevoked = this.#revocations.some((revocation) => isUnder(revocation, token.claims));
    token.revision = this.#revision ?? '';
  }
}

/** Whether a revocation is about a token. What it does not name can be anything. */
export function isUnder(revocation: GatewayRevocation, claims: GatewayTokenClaims): boolean {
  const { namespace, name, user, leaseId, at } = revocation;
  return (
    claims.iat * 1_000 <= at &&
    isWithin(namespace, claims.ns) &&
    (name === null || name === claims.key) &&
    (user === null || user === claims.sub) &&
    (leaseId === null || leaseId === claims.grant)
  );
}

function isWithin(namespace: string, inner: string): boolean {
  return namespace === '' || inner === namespace || inner.startsWith(`${namespace}.`);
}

function kidOf(token: string): string | undefined {
  if (token.length > TOKEN_BYTES_MAX) return undefined;
  try {
    const { kid } = decodeProtectedHeader(token);
    return typeof kid === 'string' ? kid : undefined;
  } catch {
    return undefined;
  }
}
