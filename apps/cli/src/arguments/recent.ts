/**
 * Lists of keys, leases and environments. They show what is in use, and what was until recently: most
 * of what was ever held is long over.
 */
import { isWithinNamespace, PHASES, RESERVED_NAMESPACE } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';

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

/** The options that the API has other fields for. */
export interface GrantListOptions {
  readonly all?: boolean | undefined;
  readonly desc?: boolean | undefined;
  readonly internal?: boolean | undefined;
}

/** Adds `--all`. */
export function withAll(command: Command, { text }: Recency): Command {
  return command.option(
    '--all',
    `include what nobody held in ${text}; --phase and --name do this too`,
  );
}

/** Adds `--internal`. */
export function withInternal(command: Command): Command {
  return command.option('--internal', 'include what Leasehold holds for itself, in `leasehold/`');
}

/** The filter that leaves out what Leasehold holds for itself, unless somebody asks for it. */
export function ownFilter(
  internal: boolean | undefined,
  namespace: string | readonly string[] | undefined,
): { withoutOwn?: true } {
  const place = typeof namespace === 'string' ? namespace : (namespace?.join('.') ?? '');
  return internal === true || isWithinNamespace(place, RESERVED_NAMESPACE)
    ? {}
    : { withoutOwn: true };
}

/** Adds `--phase` and `--holder`. */
export function withHolding(command: Command): Command {
  return command
    .addOption(new Option('--phase <phase>', 'in this phase').choices(PHASES))
    .option('--holder <holder>', 'of this holder');
}

/** Adds `--sort` and `--desc`. */
export function withSort(command: Command): Command {
  return command
    .addOption(
      new Option('--sort <field>', 'sort by this').choices(['name', 'grantedAt', 'expiresAt']),
    )
    .option('--desc', 'reverse the order');
}

/** With any of these options, what ended long ago is listed too. */
interface RecentOptions extends Pick<GrantListOptions, 'all'> {
  readonly phase?: string | undefined;
  readonly name?: string | undefined;
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
