import classes from '~/ui/text/text.module.css';

/** The name, with a key's bow and three rungs of the ladder for bits. */
export function Wordmark() {
  return (
    <span className={classes['wordmark']}>
      <svg width="22" height="22" viewBox="0 0 22 22" aria-hidden focusable="false">
        <circle cx="6" cy="11" r="4" fill="none" stroke="currentColor" strokeWidth="2" />
        <path d="M10 11h11M14 11v4M17.5 11v3M21 11v5" stroke="currentColor" strokeWidth="2" />
      </svg>
      Leasehold
    </span>
  );
}
