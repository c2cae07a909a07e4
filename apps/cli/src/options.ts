import { Option, type Command } from 'commander';
import { usageFailure } from './failures/failure.ts';
import { tableText, type Column } from './output/table.ts';

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

/** Adds `--namespace`, which names the key's namespace; the root unless given. */
export function withNamespace(command: Command): Command {
  return command.option('--namespace <namespace>', 'segments joined by "."', '');
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

const MS_OF = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** Reads the value of an option as a duration, in milliseconds. @throws {CliFailure} `cli.usage`. */
export function durationOf(name: string): (text: string) => number {
  return (text) => {
    const [, number = '', unit = 'ms'] = /^(\d{1,12})(ms|s|m|h|d)?$/u.exec(text) ?? [];
    if (number === '') {
      throw usageFailure(
        `${name} must be a time such as 90s, 10m or 2h, or a number of milliseconds, not "${text}".`,
      );
    }
    return Number(number) * MS_OF[unit as keyof typeof MS_OF];
  };
}

const MINUTES = { m: 1, h: 60, d: 24 * 60 } as const;

/** Adds `--last`, `--from` and `--to`: the time that a list is about. */
export function withTimeRange(command: Command): Command {
  return command
    .option('--last <time>', 'the time up to now: 15m, 1h or 7d', minutesOf)
    .option('--from <instant>', 'from this instant on (ISO-8601)')
    .option('--to <instant>', 'before this instant (ISO-8601)');
}

/** How {@link withTimeRange} says it, as the input of a list. */
export function timeRangeOf<Given extends { readonly last?: number }>({ last, ...rest }: Given) {
  return { ...rest, ...(last === undefined ? {} : { windowMinutes: last }) };
}

/** @throws {CliFailure} `cli.usage`. */
function minutesOf(text: string): number {
  const [, number = '', unit = ''] = /^([1-9]\d{0,4})([mhd])$/u.exec(text) ?? [];
  if (number === '') {
    throw usageFailure(`--last must be a time such as 15m, 1h or 7d, not "${text}".`);
  }
  return Number(number) * MINUTES[unit as keyof typeof MINUTES];
}

/** Collects an option that may be given several times. */
export function collected(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

/** Adds `--datacenter` to a command on one thing: where it is queried and acted on. */
export function withDatacenter(command: Command): Command {
  return command.option('--datacenter <name>', "the datacenter; by default the controller's own");
}

/** Adds `--datacenter` to a list. */
export function withDatacenters(command: Command): Command {
  return command.option(
    '--datacenter <name>',
    'the datacenter, or `all` that can be reached; by default the controller’s own',
  );
}

/** A datacenter whose part of a list is missing. */
interface Unreachable {
  readonly datacenter: string;
  readonly since: string | null;
  readonly code: string;
}

/** A list for people: `empty` when it has no rows, and what is missing from it. */
export function pageText<Row>(
  page: {
    readonly items: readonly Row[];
    readonly nextCursor: string | null;
    readonly unreachable?: readonly Unreachable[] | undefined;
  },
  empty: string,
  columns: readonly Column<Row>[],
): string {
  const { items, nextCursor, unreachable = [] } = page;
  const rows = items.length === 0 ? empty : tableText(items, columns);
  const more = nextCursor === null ? '' : `\n\nThere is more: add --cursor ${nextCursor}`;
  return `${rows}${more}${missingText(unreachable)}`;
}

/** The note below a list from which datacenters are missing. */
export function missingText(unreachable: readonly Unreachable[]): string {
  const lines = unreachable.map(({ datacenter, since, code }) => {
    const when = since === null ? '' : ` since ${since}`;
    return `\n${datacenter} is missing: it does not answer${when} (${code})`;
  });
  return lines.length === 0 ? '' : `\n${lines.join('')}`;
}
