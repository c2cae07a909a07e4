/**
 * When the warden ends a backend: readings of the boot clock, and the rules by which an agent
 * may move them. The agent may have been paused between receiving an answer and passing it on, may
 * have been restarted, or may be one of two: so its deadlines are accepted only by these rules.
 */
import { BOOT_READINGS_APART_MS } from '@leasehold/service-kit/boot-clock';

export interface OfferedDeadlines {
  readonly leaseId: string;
  readonly softAtMs: number;
  readonly hardAtMs: number;
}

export interface HeldDeadlines extends OfferedDeadlines {
  /** The ladder's length from grant to hard: no deadline may be further ahead of the agent's now. */
  readonly hardAfterMs: number;
}

export type DeadlineProblem =
  | 'unknown_backend'
  | 'other_lease'
  | 'stopping'
  | 'too_late'
  | 'out_of_order'
  | 'not_later'
  | 'too_far_ahead';

/** What is wrong with deadlines that a backend would be started on; undefined when nothing is. */
export function startProblem(offered: HeldDeadlines, nowMs: number): DeadlineProblem | undefined {
  if (offered.softAtMs >= offered.hardAtMs) return 'out_of_order';
  if (offered.softAtMs <= nowMs) return 'too_late';
  // The agent has read the clock in a process of its own, whose readings may be ahead of these.
  const aheadMsMax = offered.hardAfterMs + BOOT_READINGS_APART_MS;
  return offered.hardAtMs - nowMs > aheadMsMax ? 'too_far_ahead' : undefined;
}

/**
 * What is wrong with later deadlines for a running backend; undefined when nothing is. Soft having
 * passed counts as stopping, whether or not a tick has noticed it.
 */
export function extensionProblem(
  held: HeldDeadlines,
  offered: OfferedDeadlines,
  nowMs: number,
): DeadlineProblem | undefined {
  if (offered.leaseId !== held.leaseId) return 'other_lease';
  if (held.softAtMs <= nowMs) return 'stopping';
  if (offered.softAtMs <= held.softAtMs || offered.hardAtMs <= held.hardAtMs) return 'not_later';
  return startProblem({ ...held, ...offered }, nowMs);
}
