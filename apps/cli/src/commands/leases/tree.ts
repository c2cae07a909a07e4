import type { Command } from 'commander';
import type { Cli } from '../../cli.ts';
import { missingText, withDatacenters } from '../../options.ts';
import { printable } from '../../output/printable.ts';
import { tableText, type Column } from '../../output/table.ts';
import type { LeaseTreeNode } from '../../views.ts';

const COLUMNS: readonly Column<LeaseTreeNode>[] = [
  { head: 'namespace', text: nameInTree },
  ...(['held', 'expiring', 'expired', 'free', 'waiters'] as const).map(
    (count): Column<LeaseTreeNode> => ({
      head: count,
      text: (node) => String(node[count]),
      align: 'right',
    }),
  ),
];

/** `leasehold leases tree`. */
export function addLeasesTree(cli: Cli, parent: Command): void {
  withDatacenters(
    cli.leaf(parent, 'tree [namespace]', 'Count leases by namespace, children included'),
  ).action(async (namespace: string | undefined, { datacenter }: { datacenter?: string }) => {
    const tree = await cli.client().leases.tree.query({ namespace, datacenter });
    cli.show(tree, () => {
      const rows = tree.items.length === 0 ? 'No leases.' : tableText(tree.items, COLUMNS);
      return `${rows}${missingText(tree.unreachable)}`;
    });
  });
}

/** The whole name, so that it can be grepped and pasted, indented by its depth. */
function nameInTree({ namespace }: LeaseTreeNode): string {
  if (namespace === '') return '(root)';
  return `${'  '.repeat(namespace.split('.').length)}${printable(namespace)}`;
}
