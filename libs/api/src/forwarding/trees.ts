import type { LeaseTree, LeaseTreeNode } from '@leasehold/keys-core/leases';
import type { UnreachableDatacenter } from '../services/datacenters.ts';
import { askedOf, type Asked } from './asked.ts';
import { inputElsewhere, isElsewhere, type CalledContext } from './elsewhere.ts';

export type TreeAnswer = LeaseTree & { readonly unreachable: UnreachableDatacenter[] };

/**
 * The tree of one datacenter, or of all with the counts of each namespace added up.
 * @throws {LeaseError} `reservation.unknown_datacenter`.
 */
export async function treeAt<Input extends { readonly datacenter?: string | undefined }>(
  ctx: CalledContext,
  input: Input,
  read: (input: Omit<Input, 'datacenter'>) => Promise<LeaseTree>,
): Promise<TreeAnswer> {
  const { datacenter, ...rest } = input;
  const { services, isForwarded } = ctx;
  const isAll = datacenter === 'all';
  if (!isAll && !isElsewhere(ctx, datacenter)) return { ...(await read(rest)), unreachable: [] };
  const raw = await inputElsewhere(ctx);
  const others = isAll ? (isForwarded ? [] : services.datacenters.peers) : [datacenter];
  const [here, ...asked] = await Promise.all([
    isAll ? read(rest) : undefined,
    ...others.map((name): Promise<Asked<LeaseTree>> => askedOf(ctx, name, raw)),
  ]);
  const trees = asked.flatMap((one) => (one.outcome === 'answered' ? [one.answer] : []));
  const found = here === undefined ? trees : [here, ...trees];
  return {
    items: sumOf(found),
    isComplete: found.every(({ isComplete }) => isComplete),
    asOf: here?.asOf ?? trees[0]?.asOf ?? (await services.now()),
    unreachable: asked.flatMap((one) => (one.outcome === 'unreachable' ? [one.unreachable] : [])),
  };
}

/** The counts of each namespace, added up, in the order of the namespaces. */
function sumOf(trees: readonly LeaseTree[]): LeaseTreeNode[] {
  if (trees.length === 1 && trees[0] !== undefined) return trees[0].items;
  const nodes = new Map<string, LeaseTreeNode>();
  for (const node of trees.flatMap(({ items }) => items)) {
    const before = nodes.get(node.namespace);
    nodes.set(node.namespace, before === undefined ? node : added(before, node));
  }
  return [...nodes.values()].sort((a, b) => (a.namespace < b.namespace ? -1 : 1));
}

function added(one: LeaseTreeNode, other: LeaseTreeNode): LeaseTreeNode {
  return {
    namespace: one.namespace,
    held: one.held + other.held,
    expiring: one.expiring + other.expiring,
    expired: one.expired + other.expired,
    free: one.free + other.free,
    waiters: one.waiters + other.waiters,
  };
}
