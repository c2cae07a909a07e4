import {
  IconAlertTriangle,
  IconCircleCheck,
  IconCircleX,
  IconHourglass,
  IconLoader,
} from '@tabler/icons-react';
import {
  type BackendEnd,
  type BackendStatus,
  hasFailedOrWasRefused,
  sayEnd,
  sayFailure,
  sayLived,
  type TerminationReason,
} from '@leasehold/keys-core';
import type { KeyFailuresView, KeyView } from '@leasehold/keys-core/keys';
import { duration } from '~/lib/format.ts';
import type { Look } from '~/ui/text.tsx';

// How a backend ended, as lists and pages say it. The words are those of the command line where a program
// failed.

/** Why a backend was stopped. */
const REASON_TEXTS: Record<TerminationReason, string> = {
  key_expired: 'its key expired',
  renewal_refused: 'renewal of its key was refused',
  revoked: 'its key was revoked',
  external: 'it was stopped on request',
  lifetime: 'its lifetime ended',
  idle: 'nobody used it for its idle time',
  startup_timeout: 'it was not ready in time',
  exited: 'it ended by itself',
  drone_lost: 'its drone was lost',
  refused: 'its drone refused to start it',
  internal: 'it could not be run',
};

/** What stands before the text of `endOf`. */
export function endLabel(status: BackendStatus): string {
  return status === 'terminated' ? 'Ended because' : 'Ending because';
}

/** Why a backend has ended or is going to, with its exit code; undefined while it runs. */
export function endOf({ reason, exitCode }: Omit<BackendEnd, 'detail'>): string | undefined {
  if (reason === null) return exitCode === null ? undefined : `exited, code ${String(exitCode)}`;
  if (reason === 'exited') return sayEnd({ reason, exitCode });
  const text = REASON_TEXTS[reason];
  return exitCode === null ? text : `${text}; exited, code ${String(exitCode)}`;
}

/** The end of a backend as a list has it. */
interface ListedEnd extends Omit<BackendEnd, 'detail'> {
  readonly status: BackendStatus;
  /** Known once it was ready. */
  readonly address: string | null;
}

/** How a backend failed, in the words of a badge: `Crashed (17)`; undefined if it did not. */
export function failureLabel({ status, address, ...end }: ListedEnd): string | undefined {
  if (status !== 'terminated' || !hasFailedOrWasRefused(end, address !== null)) return undefined;
  return sayFailure(end);
}

/** How the last backends of a key failed: `Crashed (17), 25 times in 5 min`. */
export function failingText(failing: KeyFailuresView, asOf: string): string {
  const { failures, since, ...end } = failing;
  const label = sayFailure(end);
  const within = duration(Math.max(1_000, Date.parse(asOf) - Date.parse(since)));
  return failures === 1 ? label : `${label}, ${String(failures)} times in ${within}`;
}

interface EndedBackend extends ListedEnd {
  readonly statusAt: string;
  readonly states: readonly {
    readonly status: BackendStatus;
    readonly at: string;
    readonly detail: string | null;
  }[];
}

/** Ends of backends of which nobody needs to be told that they were not ready. */
const SAYS_NOT_READY: ReadonlySet<TerminationReason | null> = new Set([
  'startup_timeout',
  'refused',
]);

/** How it ended, as a sentence: `It crashed with exit code 17, 2 s after its start, before it was ready.` */
export function endSentence(backend: EndedBackend): string {
  const { reason, exitCode, address, states, statusAt } = backend;
  const startedAt = states.find(({ status }) => status === 'waiting')?.at;
  const detail = states.find(({ status }) => status === 'terminated')?.detail ?? null;
  const lived = startedAt === undefined ? null : Date.parse(statusAt) - Date.parse(startedAt);
  const said = sayEnd({ reason, exitCode });
  return [
    `${said.slice(0, 1).toUpperCase()}${said.slice(1)}`,
    sayLived(lived),
    ...(address === null && !SAYS_NOT_READY.has(reason) ? [', before it was ready'] : []),
    detail === null || detail === '' ? '.' : `: ${detail}`,
  ].join('');
}

export const BACKEND_LOOKS: Record<BackendStatus, Look> = {
  scheduled: { label: 'Scheduled', tone: 'info', icon: IconLoader },
  loading: { label: 'Loading', tone: 'info', icon: IconLoader },
  starting: { label: 'Starting', tone: 'info', icon: IconLoader },
  waiting: { label: 'Waiting', tone: 'info', icon: IconHourglass },
  ready: { label: 'Ready', tone: 'good', icon: IconCircleCheck },
  terminating: { label: 'Terminating', tone: 'warn', icon: IconHourglass },
  hard_terminating: { label: 'Hard terminating', tone: 'bad', icon: IconAlertTriangle },
  terminated: { label: 'Terminated', tone: 'calm', icon: IconCircleX },
};

/** The look of one backend: what failed is red, and says how, while it is in the state of all that have ended. */
export function backendLook(backend: Parameters<typeof failureLabel>[0]): Look {
  return lookOf(backend.status, failureLabel(backend));
}

/** The look of a key's backend; undefined for a key that has none. */
export function keyBackendLook({
  backendStatus,
  backendEnd,
}: Pick<KeyView, 'backendStatus' | 'backendEnd'>): Look | undefined {
  if (backendStatus === null) return undefined;
  return lookOf(backendStatus, isFailure(backendEnd) ? sayFailure(backendEnd) : undefined);
}

/** Whether the end of a key's backend is one that people look for. */
export function isFailure(end: KeyView['backendEnd']): end is NonNullable<KeyView['backendEnd']> {
  return end !== null && (end.hasFailed || end.reason === 'refused');
}

function lookOf(status: BackendStatus, failure: string | undefined): Look {
  return failure === undefined ? BACKEND_LOOKS[status] : failureLook(failure);
}

/** The look of a failed program. `label`: how it failed, `Crashed (17)`. */
export function failureLook(label: string): Look {
  return { label, tone: 'bad', icon: IconAlertTriangle };
}

/** The look of a key whose last backends have failed. */
export function failingLook(failing: KeyFailuresView, asOf: string): Look {
  return { label: failingText(failing, asOf), tone: 'bad', icon: IconAlertTriangle };
}
