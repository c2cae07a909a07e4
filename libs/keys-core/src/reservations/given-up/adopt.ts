/**
 * Gives a key whose datacenter was given up another home: writes the pointer that a move would have written.
 * Nothing is sealed there, because nobody can: the wait, or somebody who is certain, stands for the seal.
 */
import { LeaseError } from '../../kernel/errors/index.ts';
import { LIMITS } from '../../kernel/limits.ts';
import {
  datacenterOf,
  reservationIdOf,
  type ReservationKey,
} from '../../kernel/resource/reservation.ts';
import type { Store } from '../../postgres/open-store.ts';
import { laterToken } from '../../postgres/witness/witness-stamp.ts';
import { pointerFrom, type ProveDeps } from '../prove.ts';
import type { Home } from '../reservation-types.ts';
import type { Resolver } from '../resolving/resolver.ts';
import type { Opened } from './given-up-types.ts';

/**
 * How far above what is known the tokens of the new home begin: a month of milliseconds. The clock there may
 * have gone on from what it last made known, and nobody has seen how far.
 */
const TOKEN_MARGIN = 2_592_000_000n;

export function withMargin(token: string): string {
  return String(BigInt(token) + TOKEN_MARGIN);
}

/**
 * Points the key's last reservation to a new one in a datacenter, unless somebody else has pointed it
 * elsewhere: the first pointer stays, and is followed from now on.
 * @throws {LeaseError} `reservation.store_unreachable`, `reservation.datacenter_unreachable`,
 * `reservation.chain_too_long`.
 */
export async function adopt(
  deps: ProveDeps & { readonly resolver: Resolver; readonly ids: Store['ids'] },
  home: Home,
  adoption: {
    readonly key: ReservationKey;
    readonly toDatacenter: string;
    readonly opened: Opened;
  },
): Promise<void> {
  if (home.chain.length > LIMITS.reservationChainMax) {
    throw new LeaseError('reservation.chain_too_long');
  }
  const { key, toDatacenter, opened } = adoption;
  const stored = await deps.store.putPointer({
    fromId: home.reservationId,
    toId: reservationIdOf(toDatacenter, deps.ids.uuid()),
    tokenFloor: laterToken(opened.tokenFloor, await floorBefore(deps, home, key)),
  });
  deps.resolver.learn(stored);
}

/** What the key's tokens had to exceed where it was last: the pointer there may be newer than what is known. */
async function floorBefore(deps: ProveDeps, home: Home, key: ReservationKey): Promise<string> {
  const cameFrom = home.chain.at(-2);
  if (cameFrom === undefined) return '0';
  const pointer = await pointerFrom(deps, cameFrom, key);
  if (pointer !== undefined) return withMargin(pointer.tokenFloor);
  throw new LeaseError('reservation.datacenter_unreachable', undefined, {
    details: { datacenter: datacenterOf(cameFrom) },
  });
}
