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

/** Which part of a backend's output is wanted: the one after a position, or the last lines, or all that is kept. */
export interface LogRequest {
  backendId: string;
  /** In bytes from the beginning of the output, as an earlier page has named it. */
  from?: number | undefined;
  /** The last lines; with `sinceMs` the last of those. */
  tail?: number | undefined;
  /** Nothing older than this, by the drone's own clock. */
  sinceMs?: number | undefined;
  /** How long to wait for output when nothing is there. */
  waitMs?: number | undefined;
}

/** One line that a backend has written. Control characters are escapes already. */
export interface LogLine {
  /** ISO-8601 UTC, by the drone's clock. */
  at: string;
  stream: 'stdout' | 'stderr';
  text: string;
}

/** A part of a backend's output. */
export interface LogPage {
  backendId: string;
  lines: LogLine[];
  /** Where this page begins: after the position that was asked for where older output is gone. */
  from: number;
  /** Where the next page begins. */
  position: number;
  /** Whether more can be read at once. */
  hasMore: boolean;
  /** Whether the drone has output of it: it removes what is old, and a backend that never ran has none. */
  isThere: boolean;
  /** Whether this is the last page: the backend has ended, and everything was read. */
  hasEnded: boolean;
}

/** A question to a drone, which it answers by `drones.answer`. Sent once in a session; the caller gives up soon. */
export interface LogQuestion {
  kind: 'read_log';
  questionId: string;
  session: number;
  request: LogRequest;
}

/** What `drones.session` yields. */
export type DroneMessage = SessionOpened | SpawnAction | TerminateAction | LogQuestion;
