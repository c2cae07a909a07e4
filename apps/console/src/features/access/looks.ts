import {
  IconCircleCheck,
  IconCircleX,
  IconClockPause,
  IconHourglass,
  IconLock,
  IconMail,
} from '@tabler/icons-react';
import type { PersonState } from './people/person-state.ts';
import type { TokenState } from './tokens/token-state.ts';
import type { Look } from '~/ui/text.tsx';

export const TOKEN_LOOKS: Record<TokenState, Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  ending: { label: 'Expiring', tone: 'warn', icon: IconHourglass },
  expired: { label: 'Expired', tone: 'calm', icon: IconClockPause },
  revoked: { label: 'Revoked', tone: 'calm', icon: IconCircleX },
};

export const PERSON_LOOKS: Record<PersonState, Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  invited: { label: 'Invited', tone: 'info', icon: IconMail },
  locked: { label: 'Locked', tone: 'bad', icon: IconLock },
  disabled: { label: 'Disabled', tone: 'calm', icon: IconCircleX },
};
