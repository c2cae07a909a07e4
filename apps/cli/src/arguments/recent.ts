/** Lists show what is in use, and what was until recently: most of what was ever held is long over. */
import type { Command } from 'commander';

/** How long after its end something is still listed, and the text for that time. */
export interface Recency {
  readonly withinMs: number;
  readonly text: string;
}

/** Keys and leases come and go by the minute. */
export const RECENT_GRANTS: Recency = { withinMs: 60 * 60 * 1_000, text: 'the last hour' };
/** Environments are few, and one that nobody deploys to today still matters. */
export const RECENT_ENVIRONMENTS: Recency = {
  withinMs: 7 * 24 * 60 * 60 * 1_000,
  text: 'the last 7 days',
};

/** The options of a list; with any of them, what ended long ago is listed too. */
export interface RecentOptions {
  readonly all?: boolean;
  readonly phase?: string;
  readonly name?: string;
}

/** Adds `--all`. */
export function withAll(command: Command, { text }: Recency): Command {
  return command.option(
    '--all',
    `include what nobody held in ${text}; --phase and --name do this too`,
  );
}

/** The filter of a list that leaves out what ended long ago, unless an option asks for it. */
export function recentFilter(
  { all, phase, name }: RecentOptions,
  { withinMs }: Recency,
): { endedWithinMs?: number } {
  const isEverything = all === true || phase !== undefined || name !== undefined;
  return isEverything ? {} : { endedWithinMs: withinMs };
}

/** The text of an empty list. @param noun `keys`, for example. */
export function nothingText(noun: string, options: RecentOptions, recency: Recency): string {
  if (recentFilter(options, recency).endedWithinMs === undefined) return `No ${noun}.`;
  return `No ${noun} that were held in ${recency.text}; --all lists the others too.`;
}
