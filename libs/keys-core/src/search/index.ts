/** What apps and other slices may use. */
export { createNameFiller, createSearchService } from './search-service.ts';
export type { FindInput, Found, FoundView, SearchService } from './search-types.ts';
