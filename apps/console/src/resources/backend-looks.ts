import { type BackendStatus, sayFailure } from '@leasehold/keys-core';
import type { KeyFailuresView, KeyView } from '@leasehold/keys-core/keys';
import {
  IconAlertTriangle,
  IconCircleCheck,
  IconCircleX,
  IconHourglass,
  IconLoader,
} from '@tabler/icons-react';
import { type Look } from '~/ui/text.tsx';
import { failingText, failureLabel } from './backend-end.ts';

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
  return lookOf(backendStatus, backendEnd?.hasFailed === true ? sayFailure(backendEnd) : undefined);
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
