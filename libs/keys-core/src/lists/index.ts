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
export {
  countByNamespace,
  countResources,
  type KeyRow,
  type ListedLease,
  listKeys,
  listLeases,
  type NamespaceCounts,
} from './sql/resource-list.ts';
export { PHASE_CONDITIONS, withinLimits, withinNamespace } from './sql/lease-order.ts';
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
