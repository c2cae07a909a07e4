import { Option, type Command } from 'commander';
import { usageFailure } from './failure.ts';

/** A page of a list, as its options name it. */
export interface PageOptions {
  readonly limit: number;
  readonly cursor?: string | undefined;
}

/** Adds `--limit` and `--cursor`. */
export function withPage(command: Command): Command {
  return command
    .option('--limit <n>', 'how many at most', wholeNumberOf('--limit'), 50)
    .option('--cursor <cursor>', 'go on where the list before ended');
}

/** Adds `--namespace`, which names the key's namespace; the root unless given. */
export function withNamespace(command: Command): Command {
  return command.option('--namespace <namespace>', 'segments joined by "."', '');
}

/** Adds `--reason`. */
export function withReason(command: Command, isRequired: boolean): Command {
  const option = new Option('--reason <text>', 'why; it is kept in the history');
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

/** Collects an option that may be given several times. */
export function collected(text: string, before: readonly string[]): string[] {
  return [...before, text];
}

/** What a list says when it is not the whole. */
export function moreText(nextCursor: string | null): string {
  return nextCursor === null ? '' : `\n\nThere is more: add --cursor ${nextCursor}`;
}
