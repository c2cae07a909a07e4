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
import type { Caller } from '../kernel/face-types.ts';
import { askedAs, type SlotMode } from '../kernel/lease.ts';
import type { Named, Resource } from '../kernel/resource.ts';
import type { Store } from '../postgres/open-store.ts';
import { assertTtl, heldAnswer } from './acquire-answers.ts';
import type { Asking } from './acquirer.ts';
import { AcquireAnswers, type AcquireKind, withIds } from './acquiring.ts';
import type {
  AcquireInput,
  CallerLife,
  GrantedLease,
  HeldAnswer,
  WaitingAnswer,
} from './lease-types.ts';
import type { Refused } from './line.ts';

/** What a service asks for that wants several leases, all or none. Bounds have been checked by the caller. */
export interface AcquireAllInput extends Pick<
  AcquireInput,
  | 'waitMs'
  | 'callMs'
  | 'holder'
  | 'comment'
  | 'metadata'
  | 'confirms'
  | 'idempotencyKey'
  | 'datacenter'
> {
  /** 1 to 64 leases, none of them twice, each with how it is to be held: see {@link AcquireInput.mode}. */
  readonly scopes: readonly (Named & { readonly mode?: SlotMode | undefined })[];
  /** 1 s to 24 h, of each of them. */
  readonly ttlMs: number;
}

export type AcquireAllAnswer =
  | {
      readonly outcome: 'granted';
      /** In the order in which they were asked for. */
      readonly leases: readonly GrantedLease[];
      /** How long it waited in line, in milliseconds. */
      readonly waitedMs: number;
    }
  | HeldAllAnswer
  | (WaitingAnswer & LeaseInTheWay);

/** Nothing was granted: this lease is held, or others wait for it before the caller. */
export type HeldAllAnswer = HeldAnswer & LeaseInTheWay;

/** Which of several leases stands in the way. */
interface LeaseInTheWay {
  readonly namespace: readonly string[];
  readonly key: string;
}

/** What services do with several leases at once. */
export interface LeasesTogether {
  /**
   * Grants all of the leases, waits in the lines of all, or returns who stands in the way of one. At no moment
   * does the caller hold some of them. Each has a lease id and a fencing token of its own, and is renewed and released
   * as any other.
   * @throws {LeaseError} as {@link LeaseService.acquire}.
   */
  acquireAll(
    input: AcquireAllInput & { readonly localTimeMs: number },
    caller: Caller,
    life: CallerLife,
  ): Promise<AcquireAllAnswer>;
  /** Records why it is refused before it was carried out: see {@link LeaseService.refuse}. */
  refuseAll(
    input: AcquireAllInput & { readonly localTimeMs: number },
    caller: Caller,
    error: unknown,
  ): Promise<AcquireAllAnswer>;
  /** See {@link LeaseService.refusedBefore}. */
  allRefusedBefore(
    input: AcquireAllInput & { readonly localTimeMs: number },
    caller: Caller,
  ): Promise<AcquireAllAnswer | undefined>;
}

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
    allRefusedBefore: (input, caller) => answers.refusedBefore(input, caller),
  };
}
