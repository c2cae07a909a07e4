/** What a controller sends to a drone in its session. */
import type { TERMINATION_REASONS } from './backend-state.ts';
import type { Deadlines } from '../lease/ladder.ts';

/** The first message of a session. Everything that the drone sends carries its number. */
export interface SessionOpened {
  kind: 'session';
  session: number;
  heartbeatMs: number;
}

export interface SpawnAction {
  kind: 'spawn';
  actionId: string;
  session: number;
  clockId: string;
  backendId: string;
  program: string;
  args: string[];
  env: Record<string, string>;
  key: { name: string; namespace: string; tag: string };
  leaseId: string;
  fencingToken: string;
  /** First-grant deadlines: no process is started on these alone, see design section 4. */
  deadlines: Deadlines;
  ladder: { renewAfterMs: number; softAfterMs: number; hardAfterMs: number; ttlMs: number };
  lifetimeLimitSeconds: number | null;
  /** The trace that the connect belongs to, if a controller sends traces. */
  trace?: Readonly<Record<string, string>>;
}

export interface TerminateAction {
  kind: 'terminate';
  actionId: string;
  session: number;
  clockId: string;
  backendId: string;
  mode: 'soft' | 'hard';
  reason: (typeof TERMINATION_REASONS)[number];
  trace?: Readonly<Record<string, string>>;
}

/** What `drones.session` yields. */
export type DroneMessage = SessionOpened | SpawnAction | TerminateAction;
