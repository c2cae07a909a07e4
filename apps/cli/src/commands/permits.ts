/** How many may hold the leases of a namespace at once: `leasehold leases permits`. */
import { LIMITS, namespaceProblem, namespaceText } from '@leasehold/keys-core';
import type { Command } from 'commander';
import type { Cli } from '../cli.ts';
import { usageFailure } from '../failures.ts';
import { withDatacenter, withReason, wholeNumberOf, type ActOptions } from '../options.ts';
import { detailsText, printable } from '../output/text.ts';

/** `leasehold leases permits`. */
export function addPermits(cli: Cli, parent: Command): void {
  const group = parent
    .command('permits')
    .description('Show and set how many may hold the leases of a namespace at once');
  addShow(cli, group);
  addSet(cli, group);
}

const NAMESPACE_HELP = `
NAMESPACE is the segments joined by ".", without children; "" is the root namespace.`;

function addShow(cli: Cli, parent: Command): void {
  const about = 'Show how many may hold each lease, and all together, and who has said so';
  withDatacenter(cli.leaf(parent, 'show <namespace>', about))
    .addHelpText('after', NAMESPACE_HELP)
    .action(async (text: string, { datacenter }: ActOptions) => {
      const namespace = parseNamespace(text);
      const asked = { namespace, datacenter, limit: 1 };
      const { items, asOf } = await cli.client().leases.declared.query(asked);
      const [declaration] = items;
      const { permits = null, held = 0, waiting = 0 } = declaration ?? {};
      cli.show({ namespace, permits, held, waiting, asOf }, () =>
        permits === null
          ? `No number of permits is set for ${nameOf(namespace)}.`
          : detailsText([
              ['namespace', nameOf(namespace)],
              ['for each key', String(permits.perKey)],
              ['for all keys', permits.total === null ? 'no limit' : String(permits.total)],
              ['set by', printable(permits.by)],
              ['held', String(held)],
              ['waiting', String(waiting)],
            ]),
      );
    });
}

const SET_HELP = `
  leasehold leases permits set exports.tenant --per-key 2 --total 20 --reason "the new export workers"

It stays in force, whatever services declare. With fewer permits nobody is stopped: the next one is granted when there
is room. A --total that is new counts all who hold a permit; without --total only each key has a limit.
\`leases acquire\` and \`leases run\` take a permit with --permit.
${NAMESPACE_HELP}`;

interface SetOptions extends ActOptions {
  readonly perKey: number;
  readonly total?: number;
  readonly reason: string;
}

function addSet(cli: Cli, parent: Command): void {
  const about = 'Set how many may hold each lease of a namespace at once, and all together';
  withReason(withDatacenter(cli.leaf(parent, 'set <namespace>', about)), true)
    .requiredOption(
      '--per-key <n>',
      `how many may hold one key, up to ${String(LIMITS.permitsMax)}`,
      permitsOf('--per-key'),
    )
    .option('--total <n>', 'how many may hold all keys together', permitsOf('--total'))
    .addHelpText('after', SET_HELP)
    .action(async (text: string, options: SetOptions) => {
      const { perKey, reason, datacenter } = options;
      const total = options.total ?? null;
      const namespace = parseNamespace(text);
      const permits = { perKey, total };
      const answer = await cli
        .client()
        .leases.setPermits.mutate({ namespace, permits, reason, datacenter });
      const together = total === null ? '' : `, and ${String(total)} all keys together`;
      cli.show(
        answer,
        () => `Set: ${String(perKey)} may hold each key of ${nameOf(namespace)}${together}.`,
      );
    });
}

/** @throws {CliFailure} `cli.usage` for a text that cannot be a namespace. */
function parseNamespace(text: string): string {
  const problem = namespaceProblem(text);
  if (problem === undefined) return text;
  throw usageFailure(`The namespace ${printable(text)} ${problem}.`);
}

/** Reads the value of an option as a number of permits. @throws {CliFailure} `cli.usage`. */
function permitsOf(name: string): (text: string) => number {
  const read = wholeNumberOf(name);
  return (text) => {
    const count = read(text);
    if (count >= 1 && count <= LIMITS.permitsMax) return count;
    throw usageFailure(`${name} must be from 1 to ${String(LIMITS.permitsMax)}, not ${text}.`);
  };
}

function nameOf(namespace: string): string {
  return printable(namespaceText(namespace));
}
