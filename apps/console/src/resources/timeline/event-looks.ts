import type { EventKind } from '@leasehold/keys-core';
import {
  IconArrowBackUp,
  IconArrowsExchange,
  IconBan,
  IconCircleCheck,
  IconCircleX,
  IconClockPause,
  IconHandOff,
  IconHandStop,
  IconPlayerPlay,
  IconRepeat,
  IconTrash,
} from '@tabler/icons-react';
import type { Look } from '~/ui/text.tsx';

/** One look for each kind of event, everywhere. */
export const EVENT_LOOKS: Record<EventKind, Look> = {
  granted: { label: 'Granted', tone: 'good', icon: IconCircleCheck },
  taken_over: { label: 'Taken over', tone: 'info', icon: IconArrowsExchange },
  released: { label: 'Released', tone: 'calm', icon: IconArrowBackUp },
  failed: { label: 'Failed', tone: 'bad', icon: IconCircleX },
  expired: { label: 'Expired', tone: 'warn', icon: IconClockPause },
  removed: { label: 'Removed', tone: 'calm', icon: IconTrash },
  renewal_blocked: { label: 'Renewal blocked', tone: 'warn', icon: IconHandStop },
  renewal_allowed: { label: 'Renewal allowed', tone: 'info', icon: IconPlayerPlay },
  revoked: { label: 'Revoked', tone: 'bad', icon: IconBan },
  crash_loop: { label: 'Crash loop', tone: 'bad', icon: IconRepeat },
  renewal_refused: { label: 'Renewal refused', tone: 'bad', icon: IconHandOff },
};
