import type { DroneStatus, Phase } from '@leasehold/keys-core';
import {
  IconCircleCheck,
  IconCircleDashed,
  IconCircleX,
  IconClockPause,
  IconHourglass,
  IconPlayerPause,
  IconPlayerStop,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import { type Look, LookBadge } from '~/ui/text.tsx';

/** One look for each phase, everywhere. */
export const PHASE_LOOKS: Record<Phase, Look> = {
  held: { label: 'Held', tone: 'good', icon: IconCircleCheck },
  expiring: { label: 'Expiring', tone: 'warn', icon: IconHourglass },
  expired: { label: 'Expired', tone: 'bad', icon: IconClockPause },
  free: { label: 'Free', tone: 'calm', icon: IconCircleDashed },
};

export const DRONE_LOOKS: Record<DroneStatus, Look> = {
  ready: { label: 'Ready', tone: 'good', icon: IconCircleCheck },
  draining: { label: 'Draining', tone: 'warn', icon: IconPlayerPause },
  stopped: { label: 'Stopped', tone: 'calm', icon: IconPlayerStop },
  unreachable: { label: 'Unreachable', tone: 'bad', icon: IconPlugConnectedX },
  // An operator has decided it: less than a drone that nobody knows about.
  lost: { label: 'Lost', tone: 'warn', icon: IconCircleX },
};

export function PhaseBadge({ phase }: { readonly phase: Phase }) {
  return <LookBadge look={PHASE_LOOKS[phase]} />;
}
