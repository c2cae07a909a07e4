/**
 * Who may reach a key. A token is signed, so the gateway verifies it without a question; that its time is over or that
 * it was revoked is looked at with each request, by what the controller said last.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { GatewayRevocation, GatewaySynced, GatewayTokenClaims } from '@leasehold/keys-core';
import { keyHostLabel, keyPrefix } from '@leasehold/keys-core/gateway-addresses';
import {
  importGatewayKeys,
  isRevoked,
  kidOf,
  millisecondsOf,
  verifyGatewayToken,
  type GatewayKeys,
  type GatewayTokenProblem,
} from '@leasehold/keys-core/gateway-tokens';
import type { TickingClock } from '@leasehold/service-kit/boot-clock';
import { toldOfToken } from './headers.ts';
import { Refusal, type RefusalCode } from './refusal.ts';
import { wantedBy, type Wanted } from './routes.ts';

/** Verified tokens that are kept: a browser sends one with each request of a page. */
const VERIFIED_MAX = 10_000;

/** Why a token is refused, for who runs the gateway: its client is told less. */
export type TokenProblem = GatewayTokenProblem | 'revoked';

/** A token whose signature is right. */
export class VerifiedToken {
  readonly claims: GatewayTokenClaims;
  readonly text: string;
  readonly kid: string;
  /** Headers that backends get. */
  readonly told: IncomingHttpHeaders;
  /** The path under which browsers reach its key. */
  readonly keyPrefix: string;
  readonly wanted: Wanted;
  /** Whose it is, among the users of all keys. */
  readonly user: string;
  /** When it is over, by the clock of the database. */
  readonly endsAtMs: number;
  /** The revision in which it was looked for among the revocations. */
  revision = '';
  isRevoked = false;
  #hostLabel: string | undefined;

  constructor(text: string, kid: string, claims: GatewayTokenClaims) {
    this.text = text;
    this.kid = kid;
    this.claims = claims;
    this.told = toldOfToken(claims);
    this.keyPrefix = keyPrefix({ namespace: claims.ns, name: claims.key });
    this.wanted = wantedBy(claims);
    this.user = [claims.ns, claims.key, claims.sub].join('\0');
    this.endsAtMs = millisecondsOf(claims.exp);
  }

  /** The name of its key's own host, before the dot: a hash, made once. */
  get hostLabel(): string {
    const { ns: namespace, key: name } = this.claims;
    return (this.#hostLabel ??= keyHostLabel({ namespace, name }));
  }
}

/** Verifies tokens. Knows no key before its first {@link Tokens.learn}. */
export class Tokens {
  readonly #clock: Pick<TickingClock, 'nowMs'>;
  readonly #onRefused: (reason: TokenProblem) => void;
  #keys: GatewayKeys = new Map();
  /** What the keys were made of. */
  #keyTexts = '';
  readonly #verified = new Map<string, VerifiedToken>();
  #revocations: ReadonlyMap<string, readonly GatewayRevocation[]> = new Map();
  #revision: string | undefined;
  #changes = 0;
  /** What is added to this machine's clock to get an upper bound of the database's. */
  #aheadMs: number | undefined;

  constructor(clock: Pick<TickingClock, 'nowMs'>, onRefused: (reason: TokenProblem) => void) {
    this.#clock = clock;
    this.#onRefused = onRefused;
  }

  /** Grows with each answer that may refuse a token which was in force. */
  get changes(): number {
    return this.#changes;
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
  async learn(
    { keys, revocations, revision, asOf }: Omit<GatewaySynced, 'routes'>,
    sentAtMs: number,
  ): Promise<void> {
    const texts = keys.map(({ kid, x }) => `${kid} ${x}`).join();
    if (texts !== this.#keyTexts) {
      this.#keys = await importGatewayKeys(keys);
      this.#keyTexts = texts;
      this.#verified.clear();
      this.#changes += 1;
    }
    if (revocations !== null) this.#revocations = byPlace(revocations);
    if (revision !== this.#revision) this.#changes += 1;
    this.#revision = revision;
    this.#aheadMs = asOf - sentAtMs;
  }

  /** Whether a token is signed with a key that is not known, or not yet. */
  isOfUnknownKey(token: string): boolean {
    if (this.#verified.has(token)) return false;
    const kid = kidOf(token);
    return kid !== undefined && !this.#keys.has(kid);
  }

  /** Whether a text is a token that a known key may have signed. */
  isOfKnownKey(text: string): boolean {
    if (this.#verified.has(text)) return true;
    const kid = kidOf(text);
    return kid !== undefined && this.#keys.has(kid);
  }

  /** A token that was verified before, and is in force. */
  known(text: string): VerifiedToken | undefined {
    const verified = this.#verified.get(text);
    return verified !== undefined && this.problemOf(verified) === undefined ? verified : undefined;
  }

  /** @throws {Refusal} when it is not signed by a known key, or is not in force. */
  async verify(token: string): Promise<VerifiedToken> {
    const verified = this.#verified.get(token) ?? (await this.#read(token));
    const problem = this.problemOf(verified);
    if (problem === undefined) return verified;
    if (problem === 'gateway.token_expired') this.#onRefused('expired');
    if (problem === 'gateway.token_revoked') this.#onRefused('revoked');
    throw new Refusal(problem);
  }

  /** Why a token is not in force at a moment of {@link Tokens.databaseMs}, by default now; undefined while it is. */
  problemOf(token: VerifiedToken, databaseMs = this.databaseMs()): RefusalCode | undefined {
    if (!this.#keys.has(token.kid)) return 'gateway.token_invalid';
    if (this.#aheadMs === undefined) return 'gateway.cut_off';
    if (databaseMs >= token.endsAtMs) return 'gateway.token_expired';
    if (token.revision !== this.#revision) this.#lookUp(token);
    return token.isRevoked ? 'gateway.token_revoked' : undefined;
  }

  /** For how many more seconds a token is in force. */
  secondsLeft({ claims }: VerifiedToken): number {
    return Math.max(0, Math.floor(claims.exp - this.databaseMs() / 1_000));
  }

  /** An upper bound of the database's clock. */
  databaseMs(): number {
    return this.#clock.nowMs() + (this.#aheadMs ?? 0);
  }

  async #read(token: string): Promise<VerifiedToken> {
    const kid = kidOf(token);
    const nowMs = this.databaseMs();
    const verified = await verifyGatewayToken(token, { keys: this.#keys, nowMs });
    const reason = verified.outcome === 'refused' ? verified.reason : undefined;
    if (verified.outcome === 'refused' || kid === undefined) {
      this.#onRefused(reason ?? 'malformed');
      throw new Refusal(reason === 'expired' ? 'gateway.token_expired' : 'gateway.token_invalid');
    }
    const read = new VerifiedToken(token, kid, verified.claims);
    this.#keep(read);
    return read;
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
    token.isRevoked = placesFor(token.claims).some((place) =>
      this.#revocations.get(place)?.some((revocation) => isRevoked(token.claims, revocation)),
    );
    token.revision = this.#revision ?? '';
  }
}

function byPlace(revocations: readonly GatewayRevocation[]): Map<string, GatewayRevocation[]> {
  const found = new Map<string, GatewayRevocation[]>();
  for (const revocation of revocations) {
    const place = placeOf(revocation);
    const there = found.get(place);
    if (there === undefined) found.set(place, [revocation]);
    else there.push(revocation);
  }
  return found;
}

/** Where a revocation is found: by the narrowest of what it names. It names at least one: a grant, a key or a user. */
function placeOf({ leaseId, namespace, name, user }: GatewayRevocation): string {
  if (leaseId !== null) return placeOfGrant(leaseId);
  return name === null ? placeOfUser(user ?? '') : placeOfKey(namespace, name);
}

/** Where what may revoke a token is: all tokens in use are looked up in one turn. */
function placesFor({ grant, ns, key, sub }: GatewayTokenClaims): string[] {
  const places = [placeOfKey(ns, key), placeOfUser(sub)];
  return grant === undefined ? places : [placeOfGrant(grant), ...places];
}

const placeOfGrant = (leaseId: string): string => `grant\0${leaseId}`;
const placeOfKey = (namespace: string, name: string): string => `key\0${namespace}\0${name}`;
const placeOfUser = (user: string): string => `user\0${user}`;
