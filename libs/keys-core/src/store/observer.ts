import type { Face } from '../kernel/resource.ts';

/** The kinds of statement that are counted and timed. */
export type StatementKind =
  | 'grant'
  | 'renew'
  | 'release'
  | 'block_renewal'
  | 'allow_renewal'
  | 'revoke'
  | 'remove'
  | 'reap'
  | 'connect'
  | 'report';

/** Told what the store does, for metrics and alarms. It must not throw. */
export interface StoreObserver {
  batch(kind: StatementKind, size: number): void;
  statement(kind: StatementKind, durationMs: number): void;
  /** `status` is what the resource was before: keel's free, expired, active. */
  grant(face: Face, outcome: 'granted' | 'denied', status: 'free' | 'expired' | 'active'): void;
  renewal(face: Face, outcome: string, count: number): void;
  release(face: Face, outcome: string): void;
  waited(face: Face, durationMs: number, outcome: 'granted' | 'gave_up'): void;
  /** A grant was ended by the reaper, `lagMs` after its expiry. */
  reaped(face: Face, lagMs: number): void;
  /** The database's clock moved by this much against the controller's own. */
  clockJump(jumpMs: number): void;
  /** A backend was still stopping when its key had expired: a defect, see design 6.1. */
  overstay(backendId: string): void;
}

/** Counts nothing. */
export const SILENT_OBSERVER: StoreObserver = {
  batch: () => undefined,
  statement: () => undefined,
  grant: () => undefined,
  renewal: () => undefined,
  release: () => undefined,
  waited: () => undefined,
  reaped: () => undefined,
  clockJump: () => undefined,
  overstay: () => undefined,
};
