import {
  IconBuildingOff,
  IconCircleArrowRight,
  IconCircleCheck,
  IconHourglass,
  IconPlugConnectedX,
} from '@tabler/icons-react';
import type { Look } from '~/ui/text.tsx';
import type { ReservationLink } from './reservation-item.ts';

/** One look for each state of a reservation, everywhere: never colour alone. */
export const RESERVATION_LOOKS: Record<ReservationLink['state'], Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  moved: { label: 'Moved on', tone: 'calm', icon: IconCircleArrowRight },
  pending: { label: 'Pending', tone: 'info', icon: IconHourglass },
  unreachable: { label: 'Unreachable', tone: 'bad', icon: IconPlugConnectedX },
  given_up: { label: 'Given up', tone: 'warn', icon: IconBuildingOff },
};

/** What a state means, for somebody who sees it for the first time. */
export const STATE_TEXTS: Record<ReservationLink['state'], string> = {
  active: 'This is the home of the key.',
  moved: 'Sealed: nothing is granted under it any more.',
  pending: 'Decided, not active yet: nothing is granted under it before the first connect.',
  unreachable: 'Its datacenter cannot be reached now.',
  given_up: 'Its datacenter was given up. The next connect gives the key another home.',
};
