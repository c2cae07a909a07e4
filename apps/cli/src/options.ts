import { isWithinNamespace, PHASES, RESERVED_NAMESPACE } from '@leasehold/keys-core';
import { durationWord, readDuration } from '@leasehold/service-kit';
import { Option, type Command } from 'commander';
import { refusal, usageFailure } from './failures.ts';
import { tableText, type Column } from './output/text.ts';

/** A page of a list, as its options name it. */
export interface PageOptions {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Adds `--limit` and `--cursor`. */
export function withPage(command: Command): Command {
  return command
    .option('--limit <n>', 'how many at most', wholeNumberOf('--limit'), 50)
    .option('--cursor <cursor>', 'continue where the previous list ended');
}

/** Adds `--output` and `--watch` to a list; `chosen` is told of what was typed before the command begins. */
export function withListing(
  command: Command,
  chosen: (format: ListFormat | 'json' | undefined, isWatched: boolean) => void,
): void {
  command
    .addOption(
      new Option('-o, --output <format>', 'how to print it; json is the same as --json')
        .choices(['table', 'wide', 'json', 'name'])
        .default('table'),
    )
    .option('-w, --watch', 'print it again whenever it changes, until Ctrl-C')
    .hook('preAction', (_command, leaf) => {
      const { output, watch } = leaf.opts<{ output: ListFormat | 'json'; watch?: true }>();
      const isTyped = leaf.getOptionValueSource('output') !== 'default';
      chosen(isTyped ? output : undefined, watch === true);
      // The other options are fields of the API, which knows none of these.
      leaf.setOptionValue('output', undefined).setOptionValue('watch', undefined);
    });
}

/** Adds `--namespace`, which names the key's namespace; the root unless given. */
export function withNamespace(command: Command): Command {
  return command.option('-n, --namespace <namespace>', 'segments joined by "."', '');
}

/** Adds the namespace of a key, and the datacenter in which to look for it. */
export function withKey(command: Command): Command {
  return withNamespace(command).option(
    '--datacenter <name>',
    "the datacenter; by default the controller's own, or the key's home if the key is not there",
  );
}

/** The options of an act on one thing; {@link withReason} and {@link withDatacenter} add them. */
export interface ActOptions {
  readonly reason?: string;
  readonly datacenter?: string;
}

/** Adds `--reason`. */
export function withReason(command: Command, isRequired: boolean): Command {
  const option = new Option('--reason <text>', 'the reason, kept in the history');
  return command.addOption(isRequired ? option.makeOptionMandatory() : option);
}

/** Reads the value of an option as a whole number. @throws {CliFailure} `cli.usage`. */
export function wholeNumberOf(name: string): (text: string) => number {
  return (text) => {
    if (!/^\d{1,12}$/u.test(text)) {
      throw usageFailure(`${name} must be a whole number, not "${text}".`);
    }
    return Number(text);
  };
}

const PORT_MAX = 65_535;

/** Checks the value of an option that a variable may give too. @throws {CliFailure} `cli.usage`. */
export function portOf(name: string): (text: string) => string {
  return (text) => {
    if (/^\d{1,5}$/u.test(text) && Number(text) <= PORT_MAX) return text;
    throw usageFailure(`${name} must be a port, 0 to ${String(PORT_MAX)}, not "${text}".`);
  };
}

/** From the least to the most that is allowed. Milliseconds. */
export type DurationRange = readonly [minMs: number, maxMs: number];

/**
 * Reads the value of an option as a duration, in milliseconds.
 * @throws {CliFailure} `cli.usage` naming the range, for what is no duration or out of it.
 */
export function durationOf(name: string, range?: DurationRange): (text: string) => number {
  return (text) => {
    const durationMs = readDuration(text);
    if (durationMs === undefined) {
      const where = range === undefined ? '' : `, from ${rangeText(range)}`;
      throw usageFailure(
        `${name} must be a time such as 90s, 10m or 2h, or a number of milliseconds${where}, not "${text}".`,
      );
    }
    if (range !== undefined) assertDuration(name, durationMs, range);
    return durationMs;
  };
}

/** @throws {CliFailure} `cli.usage` for a duration that is out of range. */
export function assertDuration(name: string, durationMs: number, range: DurationRange): void {
  const [minMs, maxMs] = range;
  if (durationMs >= minMs && durationMs <= maxMs) return;
  throw usageFailure(`${name} must be from ${rangeText(range)}, not ${durationWord(durationMs)}.`);
}

function rangeText([minMs, maxMs]: DurationRange): string {
  return `${durationWord(minMs)} to ${durationWord(maxMs)}`;
}

/** An option that takes a duration. Its help names what is allowed. */
interface DurationOption {
  readonly about: string;
  readonly range: DurationRange;
  readonly defaultMs?: number;
}

/** Adds an option such as `--wait`, whose value is a duration in milliseconds. */
export function withDuration(
  command: Command,
  name: string,
  { about, range, defaultMs }: DurationOption,
): Command {
  const option = new Option(
    `${name} <time>`,
    `${about}; from ${rangeText(range)}, such as 90s, 10m or 2h, or in milliseconds`,
  ).argParser(durationOf(name, range));
  return command.addOption(
    defaultMs === undefined ? option : option.default(defaultMs, durationWord(defaultMs)),
  );
}

/** A window is counted in whole minutes. */
const MINUTE_MS = 60_000;
const LAST_RANGE: DurationRange = [MINUTE_MS, 366 * 24 * 60 * MINUTE_MS];

/** Adds `--last`, `--from` and `--to`: the time that a list is about. */
export function withTimeRange(command: Command): Command {
  return withDuration(command, '--last', {
    about: 'the time up to now, counted in minutes',
    range: LAST_RANGE,
  })
    .option('--from <instant>', 'from this instant on (ISO-8601)')
    .option('--to <instant>', 'before this instant (ISO-8601)');
}

/** How {@link withTimeRange} says it, as the input of a list. */
export function timeRangeOf<Given extends { readonly last?: number }>({ last, ...rest }: Given) {
  return { ...rest, ...(last === undefined ? {} : { windowMinutes: Math.ceil(last / MINUTE_MS) }) };
}

/** Collects an option that may be given several times. */
export function appendText(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

/** Adds `--datacenter` to a command on one thing: where it is queried and acted on. */
export function withDatacenter(command: Command): Command {
  return command.option('--datacenter <name>', "the datacenter; by default the controller's own");
}

/** `--datacenter` as it is to be typed behind a command that is advised; empty where it was not given. */
export function placeOption(datacenter: string | undefined): string {
  return datacenter === undefined ? '' : ` --datacenter ${datacenter}`;
}

/** Adds `--datacenter` to a list. */
export function withDatacenters(command: Command): Command {
  return command.option(
    '--datacenter <name>',
    'the datacenter, or `all` that can be reached; by default the controller’s own',
  );
}

/** Rows as a table, or their first column alone. */
export function rowsText<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  format: ListFormat,
): string {
  if (format === 'name') return rows.map((row) => columns[0]?.text(row).trim()).join('\n');
  const isShown = ({ isWide }: Column<Row>): boolean => format === 'wide' || isWide !== true;
  return tableText(rows, columns.filter(isShown));
}

/** What is printed of a page. */
interface ListLayout<Row> {
  /** The text of a list without rows. */
  readonly empty: string;
  readonly columns: readonly Column<Row>[];
  readonly format: ListFormat;
}

/** A datacenter whose part of a list is missing. */
interface Unreachable {
  readonly datacenter: string;
  readonly since: string | null;
  readonly code: string;
}

/** A page of a list, as the API answers it. */
export interface ListPage<Row> {
  readonly items: readonly Row[];
  /** Absent from a list that is always whole. */
  readonly nextCursor?: string | null | undefined;
  readonly unreachable?: readonly Unreachable[] | undefined;
}

/** How a list is printed for people. `name`: the first column alone, for scripts. */
export type ListFormat = 'table' | 'wide' | 'name';

/** A list for people: `empty` when it has no rows, and what is missing from it; or its names alone. */
export function pageText<Row>(
  page: ListPage<Row>,
  { empty, columns, format }: ListLayout<Row>,
): string {
  const { items } = page;
  if (format === 'name') return rowsText(items, columns, format);
  return `${items.length === 0 ? empty : rowsText(items, columns, format)}${pageNotes(page)}`;
}

/** What follows a page: that there is more, and what is missing from it. */
export function pageNotes({ nextCursor, unreachable = [] }: ListPage<unknown>): string {
  const more =
    typeof nextCursor === 'string' ? `\n\nThere is more: add --cursor ${nextCursor}` : '';
  return `${more}${missingText(unreachable)}`;
}

/** The note below a list from which datacenters are missing. */
export function missingText(unreachable: readonly Unreachable[]): string {
  const lines = unreachable.map(({ datacenter, since, code }) => {
    const when = since === null ? '' : ` since ${since}`;
    return `\n${datacenter} is missing: it does not answer${when} (${code})`;
  });
  return lines.length === 0 ? '' : `\n${lines.join('')}`;
}

/** The options of a command that says what can go wrong before it acts. */
export interface ConfirmedOptions {
  readonly yes?: boolean | undefined;
}

/** Adds `--yes`: without it the command says what it would do, and does nothing. */
export function withConfirmation(command: Command): Command {
  return command.option('--yes', 'do it; without this, only what can go wrong is shown');
}

/** @throws {CliFailure} `cli.unconfirmed`, with what can go wrong, unless `--yes` was given. */
export function requireConfirmation({ yes }: ConfirmedOptions, risk: string): void {
  if (yes === true) return;
  throw refusal('cli.unconfirmed', risk, 'Nothing was done. Add --yes if you are certain.');
}

/**
 * How long after its end something is still listed, and the text for that time. Lists of keys, leases and
 * environments show what is in use, and what was until recently: most of what was ever held is long over.
 */
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
