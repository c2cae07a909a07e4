import type { Publishing } from './publish.ts';
import { datacenterOf, type ReservationPointer } from '../kernel/resource/reservation.ts';
import { sealDeparted } from './sql/membership.ts';

/**
 * Reads from the store which keys have left this datacenter, and seals them here: a database that was
 * restored to before a move would take itself for the key's home. A pointer does not say which key it
 * is of, so the chains of all keys are walked; that is once for each restore. All pointers are in
 * memory meanwhile, some 300 bytes each.
 * @returns how many times a key has left.
 */
export async function readBack({
  datacenter,
  shared,
  store,
}: Pick<Publishing, 'datacenter' | 'shared' | 'store'>): Promise<number> {
  const pointers = new Map<string, ReservationPointer>();
  let departed = 0;
  for await (const page of shared.pointers()) {
    for (const pointer of page) {
      pointers.set(pointer.fromId, pointer);
      if (datacenterOf(pointer.fromId) === datacenter) departed += 1;
    }
  }
  if (departed === 0) return 0;
  for await (const page of shared.reservations()) {
    for (const { key, reservationId } of page) {
      for (const { pointer, chain } of departuresFrom(reservationId, pointers)) {
        if (datacenterOf(pointer.fromId) !== datacenter) continue;
        await sealDeparted(store, { key, pointer, chain });
      }
    }
  }
  return departed;
}

/** The pointers of a key's chain in their order, each with the reservations before it. */
function* departuresFrom(
  firstId: string,
  pointers: ReadonlyMap<string, ReservationPointer>,
): Generator<{ pointer: ReservationPointer; chain: string[] }> {
  const chain: string[] = [];
  let pointer = pointers.get(firstId);
  // Ids are unique and pointers are written once: each pointer is met once at most.
  while (pointer !== undefined && chain.length < pointers.size) {
    yield { pointer, chain: [...chain] };
    chain.push(pointer.fromId);
    pointer = pointers.get(pointer.toId);
  }
}
