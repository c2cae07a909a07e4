import type { CodeDraft } from './code-entry.ts';

/** The home of a key, and other datacenters. */
export const RESERVATION_CODES = {
  'reservation.datacenter_unreachable': {
    http: 503,
    retryable: true,
    text: "The key's datacenter cannot be reached.",
    doc: '`details.datacenter` is the home of the key. The key is not granted elsewhere, and a holder that it has goes on. Try again, or call a controller of that datacenter.',
  },
  'reservation.store_unreachable': {
    http: 503,
    retryable: true,
    text: 'The reservation store cannot be reached.',
    doc: 'Keys whose home is known still work. The home of a new key cannot be decided now: try again.',
  },
  'reservation.not_found': {
    http: 404,
    text: 'Nothing is reserved under this key.',
    doc: 'Only a key that was reserved, by a first connect or by `reservations.reserve`, can be moved.',
  },
  'reservation.unknown_datacenter': {
    http: 400,
    text: 'There is no such datacenter.',
    doc: '`details.known` lists the datacenters that this controller knows: its own and LEASEHOLD_PEERS.',
  },
  'reservation.same_datacenter': {
    http: 409,
    text: 'The key lives in that datacenter already.',
    doc: 'There is nothing to move.',
  },
  'reservation.key_held': {
    http: 409,
    retryable: true,
    text: 'The key is held, and a held key cannot be moved.',
    doc: 'Revoke it gracefully, or wait for `details.remainingMs`, and move it when it is free.',
  },
  'reservation.moved_meanwhile': {
    http: 409,
    retryable: true,
    text: 'The key was moved elsewhere in the meantime.',
    doc: 'Another move came first; `details.datacenter` is its home now. To move it from there, start a new move.',
  },
  'reservation.move_unfinished': {
    http: 503,
    retryable: true,
    text: 'The key has left its home, and is not known to have arrived in the new one.',
    doc: 'Until it has arrived, nobody is granted the key. `details.datacenter` is the new home, and `details.reason` the code of what went wrong. The same move again completes it, and so does the next connect, when the new home and the reservation store can be reached.',
  },
  'reservation.chain_too_long': {
    http: 409,
    text: 'The key has been moved too often.',
    doc: 'A key can move 64 times. Use another key.',
  },
  'reservation.conflict': {
    http: 409,
    text: 'This datacenter is not the home of the key.',
    doc: 'A caller, or another datacenter, uses a home of the key that the reservation store does not confirm. See the runbook.',
  },
  'reservation.datacenter_given_up': {
    http: 409,
    text: 'The datacenter was given up.',
    doc: 'Somebody has declared it lost, and its keys get homes elsewhere. It does not start any more, and no key is reserved there. `details` says who did it, when and why. See the runbook.',
  },
  'reservation.datacenter_reachable': {
    http: 409,
    text: 'The datacenter answers: it is not lost.',
    doc: 'Only a datacenter that never comes back can be given up. Move its keys instead.',
  },
  'reservation.give_up_early': {
    http: 409,
    retryable: true,
    text: 'The keys of the datacenter cannot be given other homes yet.',
    doc: 'Something there may still act on them, for `details.remainingMs` at most; null when that cannot be known. Wait, or be certain that its machines are off, and abandon what may run there.',
  },
  'reservation.not_given_up': {
    http: 404,
    text: 'The datacenter was not given up.',
    doc: 'There is nothing to take back.',
  },
  'peer.refused': {
    http: 503,
    retryable: true,
    text: 'Another datacenter refused the credentials of this one.',
    doc: '`details.datacenter` says which. Both sides must have the same secret for each other in LEASEHOLD_PEER_TOKEN.',
  },
} as const satisfies Record<`${'reservation' | 'peer'}.${string}`, CodeDraft>;
