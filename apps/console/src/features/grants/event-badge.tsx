import type { EventKind } from '@leasehold/keys-core';
import {
  IconArrowsExchange,
  IconCircleCheck,
  IconCircleX,
  IconClockPause,
  IconDoorExit,
  IconLock,
  IconLockOpen,
  IconTrash,
  IconHandStop,
} from '@tabler/icons-react';
import type { ComponentProps } from 'react';
import { LookBadge } from '~/components/text/phase-badge.tsx';

/** One look for each kind of event, everywhere. */
export const EVENT_LOOKS: Record<EventKind, ComponentProps<typeof LookBadge>['look']> = {
  granted: { label: 'Granted', tone: 'good', icon: IconCircleCheck },
  taken_over: { label: 'Taken over', tone: 'info', icon: IconArrowsExchange },
  released: { label: 'Released', tone: 'calm', icon: IconDoorExit },
  failed: { label: 'Failed', tone: 'bad', icon: IconCircleX },
  expired: { label: 'Expired', tone: 'warn', icon: IconClockPause },
  removed: { label: 'Removed', tone: 'calm', icon: IconTrash },
  renewal_blocked: { label: 'Renewal blocked', tone: 'warn', icon: IconLock },
  renewal_allowed: { label: 'Renewal allowed', tone: 'info', icon: IconLockOpen },
  revoked: { label: 'Revoked', tone: 'bad', icon: IconHandStop },
};

/** What happened: an icon and a word. */
export function EventBadge({ kind }: { readonly kind: EventKind }) {
  return <LookBadge look={EVENT_LOOKS[kind]} />;
}
