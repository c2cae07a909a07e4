/** What other slices may use. */
export {
  grantView,
  historyPage,
  holderAtMoment,
  mayRead,
  ONE,
  resourcePage,
  waiterPage,
} from './resource-reads.ts';
export { type KeyRow, listKeys } from './sql/key-list.ts';
export { type ListedLease, listLeases } from './sql/lease-list.ts';
export { countResources } from './sql/resource-count.ts';
export { PHASE_CONDITIONS, withinLimits, withinNamespace } from './sql/lease-order.ts';
export { type NamespaceCounts, countByNamespace } from './sql/lease-tree.ts';
export {
  ARE_NAMES_FILLED,
  containsText,
  foldedOf,
  hasPieces,
  IS_ALL_SEEN,
  LOOK_MATCHES_MIN,
  NEW_NAMES,
  SOME_NAMES,
} from './sql/names.ts';
