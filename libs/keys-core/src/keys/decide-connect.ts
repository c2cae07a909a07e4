import { type BackendStatus, isStopping } from '../kernel/backends.ts';
import { phaseOf } from '../kernel/lease.ts';
import type { KeyLease } from './sql/key-state.ts';

/** A key and its backend, as one read found them. */
export interface KeyState {
  readonly lease: KeyLease;
  readonly backend: {
    readonly id: string;
    readonly status: BackendStatus;
    readonly address: string | null;
    readonly droneId: string;
    /** Whether a caller that is sent to it is noted as a use. */
    readonly hasIdleStop: boolean;
  } | null;
  /** Whether the drone sent a heartbeat within three intervals. */
  readonly isDroneReachable: boolean;
  /**
   * Whether a stop of the backend was requested, or it was found idle: nobody is sent to it, even before its drone
   * knows.
   */
  readonly isStopAsked: boolean;
  /** The reservation that the key was granted under; null when under none. */
  readonly homeReservation: string | null;
  /** For how long no backend is started, because the last ones have failed, in milliseconds; mostly 0. */
  readonly delayMs: number;
  /** For how long the key's expiry will not be believed yet, in milliseconds; mostly 0. */
  readonly doubtMs: number;
}

export type ConnectDecision =
  | { readonly do: 'return' }
  | { readonly do: 'spawn' }
  | { readonly do: 'refuse'; readonly code: 'key.tag_mismatch' | 'key.unheld' }
  | {
      readonly do: 'wait';
      /** The error if the wait ends before the key does. */
      readonly code:
        'key.terminating' | 'key.holder_unreachable' | 'grant.hold_off' | 'backend.crash_loop';
      readonly remainingMs: number;
    };

/**
 * The table of `docs/lease-semantics.md`, tried from the top: tag, terminating or renewal blocked, unreachable,
 * reachable; then what to do with a key that nobody holds: its expiry may come from a clock that
 * was not watched, and then its last holder may still act. Pure: the state comes from one read,
 * with the database's time in it, and is read again after every wait and every lost grant.
 */
export function decideConnect(
  state: KeyState | undefined,
  asked: { readonly tag: string; readonly hasSpawn: boolean },
): ConnectDecision {
  if (state === undefined || grantStatusOf(state) !== 'active') {
    return asked.hasSpawn ? decideSpawn(state) : { do: 'refuse', code: 'key.unheld' };
  }
  const { lease } = state;
  if (lease.tag !== asked.tag) return { do: 'refuse', code: 'key.tag_mismatch' };
  const remainingMs = Math.max(0, (lease.stopsBy ?? lease.expiresAt) - lease.asOf);
  if (isEnding(state)) return { do: 'wait', code: 'key.terminating', remainingMs };
  if (!state.isDroneReachable) return { do: 'wait', code: 'key.holder_unreachable', remainingMs };
  return { do: 'return' };
}

/** Of a key that nobody holds. */
function decideSpawn(state: KeyState | undefined): ConnectDecision {
  const { doubtMs = 0, delayMs = 0 } = state ?? {};
  if (doubtMs > 0) return { do: 'wait', code: 'grant.hold_off', remainingMs: doubtMs };
  if (delayMs > 0) return { do: 'wait', code: 'backend.crash_loop', remainingMs: delayMs };
  return { do: 'spawn' };
}

/** How a key was found, as the metric of grants has it. */
export function grantStatusOf(state: KeyState | undefined): 'free' | 'expired' | 'active' {
  const phase = state === undefined ? 'free' : phaseOf(state.lease, state.lease.asOf);
  return phase === 'free' || phase === 'expired' ? phase : 'active';
}

/** Whether the backend is on its way out, or its key may not be renewed and will run out. */
function isEnding({ lease, backend, isStopAsked }: KeyState): boolean {
  if (backend === null || isStopAsked || isStopping(backend.status)) return true;
  return phaseOf(lease, lease.asOf) === 'expiring';
}
