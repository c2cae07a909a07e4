/** What apps and other slices may use. */
export {
  createNameFiller,
  createSearchService,
  type FindInput,
  type Found,
  type SearchService,
} from './search-service.ts';
export type { FoundView } from './sql/find.ts';
