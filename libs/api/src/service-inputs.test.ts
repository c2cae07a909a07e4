import type { AuditListInput } from '@leasehold/keys-core/access';
import type { EventListInput } from '@leasehold/keys-core/events';
import type { BackendListInput, DroneListInput } from '@leasehold/keys-core/fleet';
import type { ConnectInput, KeyListInput, SpawnRequest } from '@leasehold/keys-core/keys';
import type { FreezeInput, FreezeListInput, LeaseListInput } from '@leasehold/keys-core/leases';
import type { MoveInput, ReservationListInput } from '@leasehold/keys-core/reservations';
import { expect, test } from 'vitest';
import type { z } from 'zod';
import type { auditListInputSchema } from './contract/access.ts';
import type { eventListInputSchema } from './contract/events.ts';
import type { backendListInputSchema, droneListInputSchema } from './contract/fleet.ts';
import type { connectInputSchema, keyListInputSchema, spawnSchema } from './contract/keys.ts';
import type {
  environmentListInputSchema,
  freezeInputSchema,
  freezeListInputSchema,
} from './contract/leases.ts';
import type { moveInputSchema, reservationListInputSchema } from './contract/reservations.ts';

/** True when a schema and the input of its service have the same fields; else a type that names the others. */
type SameFields<Schema extends z.ZodType, Input, OfService extends string = never> =
  // Which datacenter is to carry out a call is decided before a service gets it, and a token is signed after it.
  Difference<
    Exclude<keyof z.output<Schema>, 'datacenter' | 'access'>,
    Exclude<keyof Input, OfService | 'datacenter'>
  >;
type Difference<Wire, Service> = [Exclude<Wire, Service>, Exclude<Service, Wire>] extends [
  never,
  never,
]
  ? true
  : { readonly missing: [Exclude<Wire, Service>, Exclude<Service, Wire>] };

test('a field of a request is known to the service, and a field of the service can be requested', () => {
  // The compiler judges: a difference is a type other than `true`.
  const same = [
    true satisfies SameFields<typeof connectInputSchema, ConnectInput, 'homeReservation'>,
    true satisfies SameFields<typeof spawnSchema, SpawnRequest>,
    true satisfies SameFields<typeof keyListInputSchema, KeyListInput>,
    true satisfies SameFields<typeof environmentListInputSchema, LeaseListInput>,
    true satisfies SameFields<typeof freezeInputSchema, FreezeInput>,
    true satisfies SameFields<typeof freezeListInputSchema, FreezeListInput>,
    true satisfies SameFields<typeof reservationListInputSchema, ReservationListInput>,
    true satisfies SameFields<typeof moveInputSchema, MoveInput>,
    true satisfies SameFields<typeof droneListInputSchema, DroneListInput>,
    true satisfies SameFields<typeof backendListInputSchema, BackendListInput>,
    true satisfies SameFields<typeof eventListInputSchema, EventListInput>,
    true satisfies SameFields<typeof auditListInputSchema, AuditListInput>,
  ];

  expect(new Set(same)).toEqual(new Set([true]));
});
