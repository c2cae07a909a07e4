/** What other slices may use. */
export { grantView, historyPage, idFrom, ONE, resourcePage, waiterPage } from './resource-reads.ts';
export { type KeyRow, listKeys } from './sql/key-list.ts';
export { type ListedLease, listLeases } from './sql/lease-list.ts';
export { countResources } from './sql/resource-list.ts';
export { withinLimits, withinNamespace } from './sql/lease-order.ts';
export { type NamespaceCounts, countByNamespace } from './sql/lease-tree.ts';
