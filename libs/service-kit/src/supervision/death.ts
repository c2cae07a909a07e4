/** Why a process died, as far as the last lines of its log show. */
export type DeathCause =
  'disk_full' | 'port_in_use' | 'not_permitted' | 'out_of_memory' | 'unknown';

/** The end of a process that should have gone on, or a start that failed. */
export interface Death {
  /** What follows its name: `ended with code 1`, `could not be started`. */
  readonly how: string;
  readonly cause: DeathCause;
  /** The last alarms of its log, the oldest first. */
  readonly lastLines: readonly string[];
}

/** The first that matches counts: a full disk is also behind some refused permissions. */
const SIGNS: readonly { readonly cause: DeathCause; readonly pattern: RegExp }[] = [
  {
    cause: 'disk_full',
    pattern: /ENOSPC|EDQUOT|No space left on device|Disk quota exceeded|\bdisk\b.* full/iu,
  },
  {
    cause: 'port_in_use',
    pattern: /EADDRINUSE|Address already in use|\bport \d.* in use|:\d+ is in use/iu,
  },
  {
    cause: 'not_permitted',
    pattern: /EACCES|EPERM|EROFS|Permission denied|Operation not permitted|Read-only file system/iu,
  },
  { cause: 'out_of_memory', pattern: /ENOMEM|heap out of memory|Cannot allocate memory/iu },
];

const TEXT_OF: Record<DeathCause, string | undefined> = {
  disk_full: 'its disk is full',
  port_in_use: 'its port is in use by another program',
  not_permitted: 'it may not read or write what it needs',
  out_of_memory: 'it ran out of memory',
  unknown: undefined,
};

/** @param lastLines the last alarms of its log, since this start of it. */
export function deathOf(how: string, lastLines: readonly string[]): Death {
  // The last line with a known cause counts: an older one may be about something that passed.
  for (const line of lastLines.toReversed()) {
    const sign = SIGNS.find(({ pattern }) => pattern.test(line));
    if (sign !== undefined) return { how, cause: sign.cause, lastLines };
  }
  return { how, cause: 'unknown', lastLines };
}

/** A start that failed with an error; the reason is in its message, or in that of a cause. */
export function failedStart(error: unknown): Death {
  const lines: string[] = [];
  for (let cause: unknown = error; cause instanceof Error; cause = cause.cause) {
    lines.unshift(cause.message);
  }
  const { cause } = deathOf('', lines);
  return { how: 'could not be started', cause, lastLines: lines.slice(-1) };
}

/** How it ended and why, in one line: the cause, or else the last line of its log. */
export function deathText({ how, cause, lastLines }: Death): string {
  const why = TEXT_OF[cause] ?? lastLines.at(-1);
  return why === undefined ? how : `${how}: ${why}`;
}
