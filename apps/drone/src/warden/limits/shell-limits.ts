import type { CommandLimits, UserIds } from '../link/protocol.ts';
import type { Controller } from './control-groups.ts';

/** Descriptors of one process. */
const FILES_MAX = 65_536;
/** Shells count the length of files in these. */
const BLOCK_BYTES = 512;

export interface LimitedStart {
  readonly limits: CommandLimits;
  readonly user: UserIds | null;
  /** Whether the processes of each backend are counted for themselves, in a user namespace of its own. */
  readonly isUserNamespace: boolean;
  /** What control groups bound. */
  readonly bounds: (controller: Controller) => boolean;
}

/**
 * What the shell that becomes the program does before: limits of each process, and, where there are no
 * control groups, what comes closest to theirs. A limit that is lower already stays.
 *
 * The kernel counts processes by user. Where programs have users of their own, all backends of a
 * program are counted together; where they share the drone's, they cannot be bounded so.
 */
export function shellLimits({ limits, user, isUserNamespace, bounds }: LimitedStart): string {
  const { memoryBytes, fileBytes, pids, together } = limits;
  const lines = [
    'ulimit -c 0',
    `ulimit -n ${String(FILES_MAX)}`,
    `ulimit -f ${String(Math.ceil(fileBytes / BLOCK_BYTES))}`,
  ];
  if (!bounds('memory')) lines.push(`ulimit -d ${String(Math.ceil(memoryBytes / 1_024))}`);
  const count = isUserNamespace ? pids : pids * together;
  if (!bounds('pids') && (isUserNamespace || user !== null)) {
    // Some shells have it under one letter, some under the other.
    lines.push(`ulimit -u ${String(count)} || ulimit -p ${String(count)}`);
  }
  return lines.join('\n');
}

/** What this machine cannot bound for each backend, in words for an operator. */
export function limitLacks(bounds: (controller: Controller) => boolean): string[] {
  const lacking = [
    ...(bounds('pids') ? [] : ['processes']),
    ...(bounds('memory') ? [] : ['memory']),
    ...(bounds('cpu') ? [] : ['processors']),
  ];
  return lacking.length === 0
    ? []
    : [`control groups to bound ${lacking.join(', ')} of each backend`];
}
