import type { DroneMessage } from '@leasehold/api';
import type * as wire from './wire.ts';

/**
 * The agent's connection to a controller. A call fails when its answer has not come in a bounded time;
 * whether it was carried out is then unknown, and every call of a drone may be sent again.
 */
export interface ControllerLink {
  /**
   * Follows a session until the returned function is called; a message or an end that was under way
   * may still arrive then. The connection is reopened automatically; each time, a new session begins
   * with a message of its own.
   */
  follow(input: wire.SessionInput, listener: SessionListener): () => void;
  /**
   * Given up after `timeoutMs`, and not sent later than that: a reading of the clock that waited
   * for a connection would be taken for a fresh one, and what is counted from it has passed.
   */
  heartbeat(input: wire.HeartbeatInput, timeoutMs: number): Promise<void>;
  /** The drone stops. */
  goodbye(input: wire.GoodbyeInput): Promise<void>;
  acknowledge(input: wire.AckInput): Promise<void>;
  /** Answers a question of the session. */
  answer(input: wire.AnswerInput): Promise<void>;
  /** Given up after `timeoutMs`, if not before. */
  report(input: wire.ReportInput, timeoutMs: number): Promise<'recorded' | 'ignored' | 'kill'>;
  /** One answer per renewal, each naming its lease. Given up after `timeoutMs`, if not before. */
  renew(input: wire.RenewInput, timeoutMs: number): Promise<readonly wire.RenewResult[]>;
  close(): Promise<void>;
}

export interface SessionListener {
  message(message: DroneMessage): void;
  /** The controller ended the session or refused it; the subscription is over. */
  ended(error: unknown): void;
}

/** A newer session of this drone exists: what was sent changed nothing. */
export class SessionSuperseded extends Error {
  override readonly name = 'SessionSuperseded';
}
