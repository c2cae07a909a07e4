/**
 * The other end of a gateway's connection, controlled by a test: it answers what controllers answer when messages are
 * late or lost, and keeps what it was told. Its tokens are signed as a controller signs them.
 */
import { randomUUID } from 'node:crypto';
import type { GatewayRevocation, GatewayRoute, GatewayTokenClaims } from '@leasehold/keys-core';
import { createSigningKey, type GatewaySigningKey } from '@leasehold/keys-core/gateway-tokens';
import { importJWK, SignJWT } from 'jose';
import type { ControllerLink, HandOverInput, RouteInput, SyncInput } from '../controller-link.ts';

/** A token as a controller makes it; any part can be made wrong. */
export async function signToken(
  key: GatewaySigningKey,
  claims: Partial<GatewayTokenClaims>,
  { alg = 'EdDSA' }: { readonly alg?: string } = {},
): Promise<string> {
  const nowSeconds = Date.now() / 1_000;
  const whole = {
    sub: 'anna',
    ns: '',
    key: 'room',
    tag: '',
    iat: nowSeconds,
    exp: nowSeconds + 3_600,
    jti: randomUUID(),
    ...claims,
  };
  const { kid, x, d } = key;
  const imported = await importJWK({ kty: 'OKP', crv: 'Ed25519', x, d }, alg);
  return new SignJWT(whole).setProtectedHeader({ alg, kid }).sign(imported);
}

export class ScriptedController implements ControllerLink {
  keys = [createSigningKey('gk-1')];
  revocations: GatewayRevocation[] = [];
  revision = 'r1';
  /** How far the clock of its database is ahead. */
  aheadMs = 0;
  /** How long routes are valid. */
  validForMs = 60_000;
  /** The grants that are over. */
  readonly ended = new Set<string>();
  readonly questions: RouteInput[] = [];
  readonly syncs: SyncInput[] = [];
  /** Answers a question about a route; by default with {@link ScriptedController.address}. */
  answerRoute: (input: RouteInput) => Promise<GatewayRoute> = (input) =>
    Promise.resolve(this.routeTo(input));
  /** What an answer to a sync waits for. */
  beforeSync: () => Promise<void> = () => Promise.resolve();
  address = '127.0.0.1:1';
  leaseId = randomUUID();
  fencingToken = 1n;

  /** The next grant of the key, at another address. */
  move(address: string): void {
    this.address = address;
    this.leaseId = randomUUID();
    this.fencingToken += 1n;
  }

  routeTo({ key }: Pick<RouteInput, 'key'>): GatewayRoute {
    return {
      key: { namespace: key.namespace ?? '', name: key.name, tag: key.tag ?? '' },
      leaseId: this.leaseId,
      fencingToken: String(this.fencingToken),
      program: 'room',
      address: this.address,
      validForMs: this.validForMs,
    };
  }

  sign(claims: Partial<GatewayTokenClaims> = {}): Promise<string> {
    return signToken(this.keys.at(-1) ?? createSigningKey('gk-0'), claims);
  }

  route(input: RouteInput): Promise<GatewayRoute> {
    this.questions.push(input);
    return this.answerRoute(input);
  }

  handOver(input: HandOverInput): ReturnType<ControllerLink['handOver']> {
    return Promise.resolve({ url: `https://${input.datacenter}.example.com/t/handed.over.token/` });
  }

  async sync(input: SyncInput): ReturnType<ControllerLink['sync']> {
    this.syncs.push(input);
    await this.beforeSync();
    return {
      routes: input.uses.map(({ leaseId }) =>
        this.ended.has(leaseId)
          ? { leaseId, state: 'ended' }
          : { leaseId, state: 'valid', validForMs: this.validForMs },
      ),
      keys: this.keys.map(({ kid, x }) => ({ kid, x })),
      revocations: input.revision === this.revision ? null : this.revocations,
      revision: this.revision,
      asOf: Date.now() + this.aheadMs,
    };
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
