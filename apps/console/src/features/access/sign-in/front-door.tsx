import type { ReactNode } from 'react';
import { Wordmark } from '~/ui/text.tsx';
import classes from './front-door.module.css';

/** The page of a visitor who is not signed in: what this is, and the way in. */
export function FrontDoor({ children }: { readonly children: ReactNode }) {
  return (
    <div className={classes['page']}>
      <header className={classes['side']}>
        <Wordmark />
        <div className={classes['said']}>
          <p className={classes['question']}>
            Who holds this key right now, and for how long may they act as if they do?
          </p>
          <LadderDrawing />
        </div>
      </header>
      <main className={classes['main']}>
        <div className={classes['card']}>{children}</div>
      </main>
    </div>
  );
}

const RUNGS = [
  { at: 0, name: 'renewed', anchor: 'start' },
  { at: 96, name: 'renew', anchor: 'middle' },
  { at: 206, name: 'soft stop', anchor: 'middle' },
  { at: 296, name: 'hard stop', anchor: 'middle' },
  { at: 399, name: 'expired', anchor: 'end' },
] as const;

/** The deadlines of a key, as every page of the console draws them. An ornament here. */
function LadderDrawing() {
  return (
    <svg
      className={classes['ladder']}
      viewBox="-1 0 401 64"
      width="401"
      height="64"
      aria-hidden
      focusable="false"
    >
      <rect className={classes['sure']} x="0" y="20" width="206" height="6" />
      <rect className={classes['stopping']} x="206" y="20" width="90" height="6" />
      <rect className={classes['gone']} x="296" y="20" width="103" height="6" />
      {RUNGS.map(({ at, name, anchor }) => (
        <g key={name}>
          <path d={`M${String(at)} 14v18`} stroke="currentColor" strokeWidth="1.5" />
          <text x={at} y="50" textAnchor={anchor}>
            {name}
          </text>
        </g>
      ))}
      <circle className={classes['now']} cx="58" cy="23" r="5" />
    </svg>
  );
}
