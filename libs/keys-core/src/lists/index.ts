/** What other slices may use. */
export { type PageInput, grantTimes, historyPage, idFrom, waiterPage } from './resource-reads.ts';
export { type KeyRow, listKeys } from './sql/key-list.ts';
export { type ListedLease, listLeases } from './sql/lease-list.ts';
export {
  type LeaseOrder,
  cursorAfter,
  placeFrom,
  withinLimits,
  withinNamespace,
} from './sql/lease-order.ts';
export { type NamespaceCounts, countByNamespace } from './sql/lease-tree.ts';
