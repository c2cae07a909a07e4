import { FOUND_KINDS } from '@leasehold/keys-core';
import { Option, type Command } from 'commander';
import type { Cli } from '../cli.ts';
import type { FindInput, FoundAnswer, FoundView } from '../controller-api.ts';
import { missingText, rowsText, wholeNumberOf, withDatacenters } from '../options.ts';
import { placed, printable, printableOr, type Column } from '../output/text.ts';

const HELP = `
Finds what contains the text, whatever its case: exact names first, then names that begin with it, then
the rest. Names are as they are printed: \`boards.eu/q4-roadmap\`. In a line of a log, ids of grants, tickets and backends,
fencing tokens, addresses and holders are found. People and tokens are for administrators.`;

const COLUMNS: readonly Column<FoundView>[] = [
  { head: 'kind', text: ({ kind }) => kind },
  { head: 'name', text: ({ text }) => printable(text) },
  { head: 'state', text: ({ state }) => state },
  { head: 'held by, key or role', text: ({ detail }) => printableOr(detail, '') },
];

interface FindOptions {
  readonly kind?: FindInput['kinds'];
  readonly limit: number;
  readonly datacenter?: string;
}

/** `leasehold find`: anything by a part of its name. */
export function addFind(cli: Cli, program: Command): void {
  const command = cli.leaf(program, 'find <text>', 'Find anything by a part of its name');
  withDatacenters(command)
    .addOption(
      new Option('--kind <kind...>', 'only of these kinds; everything unless given').choices(
        FOUND_KINDS,
      ),
    )
    .option('--limit <n>', 'how many at most', wholeNumberOf('--limit'), 20)
    .addHelpText('after', HELP)
    .action(async (text: string, { kind, limit, datacenter }: FindOptions) => {
      const found = await cli.client().search.find.query({ text, kinds: kind, limit, datacenter });
      const { format } = cli.listing;
      const columns = placed(format === 'name' ? COLUMNS.slice(1) : COLUMNS, datacenter);
      const rows = rowsText(found.items, columns, format);
      cli.show(found, () => (format === 'name' ? rows : foundText(found, text, rows)));
    });
}

function foundText(found: FoundAnswer, text: string, table: string): string {
  const { items, isComplete, failed, unreachable } = found;
  const rows = items.length === 0 ? `Nothing has ${printable(text)} in its name.` : table;
  const notes = [
    ...(isComplete ? [] : ['Names that were there before an upgrade are still being added.']),
    ...(failed.length === 0 ? [] : [`Not searched this time: ${failed.join(', ')}.`]),
  ];
  return [rows, ...notes].join('\n\n') + missingText(unreachable);
}
