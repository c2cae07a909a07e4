/** Reads, decides and changes which datacenter a key lives in. */
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server';
import type { AppRouter } from '@leasehold/api';
import { currentContext } from './context/work-context.ts';
import {
  assertInput,
  cancelShape,
  moveShape,
  plainInput,
  reservationKey,
  reserveShape,
  resolveShape,
} from './inputs.ts';
import { callWithin, untilAnswered } from './lease/calls.ts';
import type { Machine } from './machine.ts';
import { linkSignals } from './signals.ts';
import type { ControllerApi } from './transport/controller-client.ts';
import type { Reachability } from './transport/links.ts';

type Inputs = inferRouterInputs<AppRouter>['reservations'];
type Outputs = inferRouterOutputs<AppRouter>['reservations'];

/**
 * What is reserved: a list of strings, 1 to 1,024 bytes in all. For a key of Leasehold it is
 * `[namespace, name]`, with the namespace as one string, `''` for the root.
 */
export type ReservationKey = readonly string[];
export type ReservationDetail = NonNullable<Outputs['get']>;
export type ReservationFilter = Inputs['list'];
export type ReservationPage = Outputs['list'];

interface Cancel {
  readonly signal?: AbortSignal | undefined;
}

/**
 * Every method throws {@link LeaseholdCallError} with a code of the registry, `UnreachableError`,
 * `OutcomeUnknownError`, or the reason of the signal; most may throw `ReservationStoreUnreachableError`.
 */
export interface Reservations {
  /**
   * Decides where a key lives. If that is decided already, the answer has its home. Only {@link move}
   * changes it later. If the answer was lost and the request was sent again, the reservation that this
   * call made may be reported as `existing`.
   * @throws `DatacenterUnreachableError`; `reservation.unknown_datacenter`.
   */
  reserve(
    key: ReservationKey,
    options?: Cancel & { readonly datacenter?: string | undefined },
  ): Promise<Outputs['reserve']>;
  /**
   * Returns where a key lives, from the controller's memory if possible. `fresh` asks the key's
   * datacenter too, so the answer includes a move that the controller does not know of yet.
   * @throws `DatacenterUnreachableError`, with `fresh`.
   */
  resolve(
    key: ReservationKey,
    options?: Cancel & { readonly fresh?: boolean | undefined },
  ): Promise<Outputs['resolve']>;
  /**
   * Moves a free key to another datacenter. It is sent once. After `OutcomeUnknownError` call it again,
   * which completes an interrupted move; `reservation.same_datacenter` then means that it is done.
   * @throws `ReservationKeyHeldError`; `DatacenterUnreachableError`; `reservation.not_found`,
   * `.unknown_datacenter`, `.same_datacenter`, `.moved_meanwhile`, `.chain_too_long`; `grant.hold_off`.
   */
  move(
    key: ReservationKey,
    options: Cancel & { readonly toDatacenter: string; readonly reason: string },
  ): Promise<Outputs['move']>;
  /** A key's whole chain of reservations; null when it is not reserved. */
  get(key: ReservationKey, options?: Cancel): Promise<Outputs['get']>;
  /**
   * A page of the reservations of one datacenter, or of `'all'` that can be reached. `unreachable` names
   * the others.
   */
  list(filter?: ReservationFilter, options?: Cancel): Promise<ReservationPage>;
}

export interface ReservationsDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  /** How long to wait for an answer, retries included. Milliseconds. */
  readonly answerMs: number;
  readonly reachability: Pick<Reachability, 'explain' | 'isHopeless'>;
  /** Aborts when the client is closed. */
  readonly closing: AbortSignal;
}

export function createReservations(deps: ReservationsDeps): Reservations {
  const { api, machine, answerMs, reachability, closing } = deps;

  async function within<T>(
    outer: AbortSignal | undefined,
    call: (signal: AbortSignal | undefined) => Promise<T>,
  ): Promise<T> {
    using linked = linkSignals([outer, currentContext()?.signal, closing]);
    return await reachability.explain(() => call(linked.signal));
  }

  /** Sends a request again if its answer was lost. All requests here may be sent twice. */
  function ask<T>(
    { signal: outer }: Cancel,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const untilMs = machine.clock.nowMs() + answerMs;
    const isHopeless = (momentMs: number): boolean => reachability.isHopeless(momentMs);
    return within(outer, (signal) =>
      untilAnswered(machine, { untilMs, tryMs: answerMs, signal, isHopeless }, (ending) =>
        call(ending.signal),
      ),
    );
  }

  return {
    reserve: async (key, options = {}) => {
      assertInput(reservationKey, key, 'key');
      assertInput(reserveShape, options, '');
      const { datacenter, ...cancel } = options;
      return ask(cancel, (signal) =>
        api.reservations.reserve.mutate({ key: [...key], datacenter }, { signal }),
      );
    },
    resolve: async (key, options = {}) => {
      assertInput(reservationKey, key, 'key');
      assertInput(resolveShape, options, '');
      const { fresh, ...cancel } = options;
      return ask(cancel, (signal) =>
        api.reservations.resolve.query({ key: [...key], fresh }, { signal }),
      );
    },
    move: async (key, options) => {
      assertInput(reservationKey, key, 'key');
      assertInput(moveShape, options, '');
      const { toDatacenter, reason, signal: outer } = options;
      return within(outer, (signal) =>
        callWithin(machine, { ms: answerMs, signal }, (ending) =>
          api.reservations.move.mutate(
            { key: [...key], toDatacenter, reason },
            { signal: ending.signal },
          ),
        ),
      );
    },
    get: async (key, cancel = {}) => {
      assertInput(reservationKey, key, 'key');
      assertInput(cancelShape, cancel, '');
      return ask(cancel, (signal) => api.reservations.get.query({ key: [...key] }, { signal }));
    },
    list: async (filter = {}, cancel = {}) => {
      assertInput(plainInput, filter, 'filter');
      assertInput(cancelShape, cancel, '');
      return ask(cancel, (signal) => api.reservations.list.query(filter, { signal }));
    },
  };
}
