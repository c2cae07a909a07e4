/** One acquire of several leases: all are granted at once, or in their turn after a wait in the line of each, or none is. */
import {
  createGroupGranter,
  firstLeaseId,
  type GrantRequests,
  type GroupGranter,
  idempotentRequest,
} from '../grants/index.ts';
import { newTimedId } from '../kernel/clock.ts';
import { invariant } from '../kernel/errors.ts';
import { serviceLadder } from '../kernel/ladder.ts';
import { askedAs } from '../kernel/lease.ts';
import type { Resource } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { assertTtl, heldAnswer } from './acquire-answers.ts';
import type { Asking } from './acquirer.ts';
import { AcquireAnswers, type AcquireKind, withIds } from './acquiring.ts';
import type {
  AcquireAllAnswer,
  AcquireAllInput,
  HeldAllAnswer,
  LeasesTogether,
} from './lease-types.ts';
import type { Refused } from './line.ts';

/** Asks for several leases, in a statement of their own. */
export function askForAll(granter: GroupGranter): Asking<HeldAllAnswer> {
  return {
    grant: (requests, signal) => granter.grantAll(requests, signal),
    refusal: (requests) => granter.refusalOfAll(requests),
    isBusy: () => false,
    heldAnswer: heldAllAnswer,
  };
}

/** A refusal as callers get it, with the lease that stands in the way. */
function heldAllAnswer(
  requests: GrantRequests,
  refused: Refused | undefined,
  waitedMs: number,
): HeldAllAnswer {
  const { face, namespace, name } = requests[refused?.place ?? 0] ?? requests[0];
  return {
    ...heldAnswer(face, refused, waitedMs),
    namespace: namespace === '' ? [] : namespace.split('.'),
    key: name,
  };
}

type Input = AcquireAllInput & { readonly localTimeMs: number };

function answerForAll(store: Store): AcquireKind<Input, HeldAllAnswer, AcquireAllAnswer> {
  return {
    ...askForAll(createGroupGranter(store)),
    face: 'lease',
    firstOf({ scopes: [scope] }) {
      return scope === undefined ? undefined : { face: 'lease', ...scope };
    },
    countOf: ({ scopes }) => scopes.length,
    requestsOf(input, { principal, actor }) {
      assertTtl(input.ttlMs);
      const common = {
        face: 'lease' as const,
        holder: input.holder,
        principal,
        tag: '',
        comment: input.comment ?? null,
        metadata: input.metadata ?? null,
        ladder: serviceLadder(input.ttlMs),
        // One that may wait confirms what it has waited for.
        confirms: input.confirms === true && input.waitMs === 0,
        actor,
      };
      const [first, ...others] = input.scopes.map(({ namespace, name, mode }) => ({
        ...common,
        ...askedAs(mode),
        namespace,
        name,
      }));
      invariant(first !== undefined, 'a request names a lease');
      const { idempotencyKey } = input;
      const key =
        idempotencyKey === undefined
          ? {}
          : { idempotencyKey, fingerprint: fingerprintOf(first, input) };
      return withIds([{ ...first, ...key }, ...others], firstLeaseId(newTimedId(store)));
    },
    fingerprintOf,
    grantedAnswer: (leases, waitedMs) => ({ outcome: 'granted', leases, waitedMs }),
    waitingAnswer: (waiting, { namespace, key }) => ({ ...waiting, namespace, key }),
  };
}

function fingerprintOf(first: Resource, input: Input): string {
  const { fingerprint } = idempotentRequest(first, {
    // Without a mode it is that of older versions.
    leases: input.scopes.map(({ namespace, name, mode }) =>
      mode === undefined || mode === 'exclusive' ? [namespace, name] : [namespace, name, mode],
    ),
    ttlMs: input.ttlMs,
    holder: input.holder,
    comment: input.comment ?? null,
    metadata: input.metadata ?? null,
    datacenter: input.datacenter ?? null,
  });
  return fingerprint;
}

/** What services do with several leases at once, over the kernel. */
export function createLeasesTogether({ store }: { readonly store: Store }): LeasesTogether {
  const answers = new AcquireAnswers(store, answerForAll(store));
  return {
    acquireAll: (input, caller, life) => answers.acquire(input, caller, life),
    refuseAll: (input, caller, error) => answers.refuse(input, caller, error),
  };
}
