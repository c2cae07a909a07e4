import classes from './front-door.module.css';

const RUNGS = [
  { at: 0, name: 'renewed' },
  { at: 96, name: 'renew' },
  { at: 206, name: 'soft stop' },
  { at: 276, name: 'hard stop' },
  { at: 360, name: 'expired' },
] as const;

/** The deadlines of a key, as every page of the console draws them. An ornament here. */
export function LadderDrawing() {
  return (
    <svg
      className={classes['ladder']}
      viewBox="-4 0 404 64"
      width="404"
      height="64"
      aria-hidden
      focusable="false"
    >
      <rect className={classes['sure']} x="0" y="20" width="206" height="6" />
      <rect className={classes['stopping']} x="206" y="20" width="70" height="6" />
      <rect className={classes['gone']} x="276" y="20" width="84" height="6" />
      {RUNGS.map(({ at, name }) => (
        <g key={name}>
          <path d={`M${String(at)} 14v18`} stroke="currentColor" strokeWidth="1.5" />
          <text x={at} y="50" textAnchor={at === 0 ? 'start' : 'middle'}>
            {name}
          </text>
        </g>
      ))}
      <circle className={classes['now']} cx="58" cy="23" r="5" />
    </svg>
  );
}
