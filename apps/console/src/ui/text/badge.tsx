import type { Icon } from '@tabler/icons-react';
import classes from './badge.module.css';

export type Tone = 'good' | 'warn' | 'bad' | 'info' | 'calm';

/** How a state looks: never colour alone. */
export interface Look {
  readonly label: string;
  readonly tone: Tone;
  readonly icon: Icon;
}

/** A state: an icon, a word, a tone. */
export function LookBadge({ look }: { readonly look: Look }) {
  const { label, tone, icon: LookIcon } = look;
  return (
    <span className={classes['badge']} data-tone={tone}>
      <LookIcon size={13} stroke={2} aria-hidden />
      {label}
    </span>
  );
}
