/** Which datacenter a key lives in: asked, decided, and changed. */
import type { AppRouter } from '@leasehold/api';
import type { inferRouterInputs, inferRouterOutputs } from '@trpc/server';
import { currentContext } from './context/work-context.ts';
import type { ControllerApi } from './controller-client.ts';
import { callWithin, untilAnswered } from './lease/calls.ts';
import type { Machine } from './machine.ts';
import { linkSignals } from './signals.ts';

type Inputs = inferRouterInputs<AppRouter>['reservations'];
type Outputs = inferRouterOutputs<AppRouter>['reservations'];

/**
 * What is reserved: a list of strings, 1 to 1,024 bytes in all. That of a key of Leasehold's is
 * `[namespace, name]`, the namespace as one text, `''` for the root.
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
   * Decides where a key lives, unless that is decided: then the answer says where. Permanently: only
   * {@link move} changes it. Where an answer was lost and asked for again, the reservation that this
   * call made may be reported as `existing`.
   * @throws `DatacenterUnreachableError`; `reservation.unknown_datacenter`.
   */
  reserve(
    key: ReservationKey,
    options?: Cancel & { readonly datacenter?: string | undefined },
  ): Promise<Outputs['reserve']>;
  /**
   * Where a key lives. Answered from the controller's memory where it can be; `fresh` asks the key's
   * datacenter too, so that a move that nobody at the controller knows of is seen.
   * @throws `DatacenterUnreachableError`, when fresh.
   */
  resolve(
    key: ReservationKey,
    options?: Cancel & { readonly fresh?: boolean | undefined },
  ): Promise<Outputs['resolve']>;
  /**
   * Moves a free key to another datacenter. Sent once: after `OutcomeUnknownError` ask again, which goes
   * on with a move that was cut short; `reservation.same_datacenter` then says that it is done.
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
   * A page of reservations, of one datacenter or of `'all'` that can be reached; `unreachable` names
   * those that could not be.
   */
  list(filter?: ReservationFilter, options?: Cancel): Promise<ReservationPage>;
}

export interface ReservationsDeps {
  readonly api: ControllerApi;
  readonly machine: Machine;
  /** How long an answer is waited for, tries included. Milliseconds. */
  readonly answerMs: number;
}

export function createReservations({ api, machine, answerMs }: ReservationsDeps): Reservations {
  async function within<T>(
    outer: AbortSignal | undefined,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const linked = linkSignals([outer, currentContext()?.signal]);
    try {
      return await call(linked.signal);
    } finally {
      linked[Symbol.dispose]();
    }
  }

  /** Asks again where an answer was lost: what is asked here may be asked twice. */
  function ask<T>(
    { signal: outer }: Cancel,
    call: (signal: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const untilMs = machine.clock.nowMs() + answerMs;
    return within(outer, (signal) =>
      untilAnswered(machine, { untilMs, tryMs: answerMs, signal }, call),
    );
  }

  return {
    reserve: (key, { datacenter, ...cancel } = {}) =>
      ask(cancel, (signal) =>
        api.reservations.reserve.mutate({ key: [...key], datacenter }, { signal }),
      ),
    resolve: (key, { fresh, ...cancel } = {}) =>
      ask(cancel, (signal) => api.reservations.resolve.query({ key: [...key], fresh }, { signal })),
    move: (key, { toDatacenter, reason, signal: outer }) =>
      within(outer, (signal) =>
        callWithin(machine, { ms: answerMs, signal }, (callSignal) =>
          api.reservations.move.mutate(
            { key: [...key], toDatacenter, reason },
            { signal: callSignal },
          ),
        ),
      ),
    get: (key, cancel = {}) =>
      ask(cancel, (signal) => api.reservations.get.query({ key: [...key] }, { signal })),
    list: (filter = {}, cancel = {}) =>
      ask(cancel, (signal) => api.reservations.list.query(filter, { signal })),
  };
}
