/** Walking the lease table page by page: what has to be found there has no index, see ADR 3. */

export interface PageRange {
  readonly fromPage: number;
  /** Exclusive. */
  readonly toPage: number;
}

/**
 * The pages of one pass: from where the last one ended, and on from the beginning. Without the second
 * part a table that grows would be read at its end alone, a few new pages in each pass.
 */
export function rangesFrom(fromPage: number, pages: number, pagesMax: number): PageRange[] {
  const toPage = Math.min(fromPage + pagesMax, pages);
  const restCount = Math.min(pagesMax - (toPage - fromPage), fromPage);
  const first = { fromPage, toPage };
  return restCount > 0 ? [first, { fromPage: 0, toPage: restCount }] : [first];
}
