/** Walking the lease table page by page: there is no index for what has to be found, see ADR 25. */

export interface PageRange {
  readonly fromPage: number;
  /** Exclusive. */
  readonly toPage: number;
}

/**
 * The pages of one pass: from where the last one ended, then from the beginning. Without the second
 * part only the end of a growing table would be read, a few new pages in each pass.
 */
export function rangesFrom(fromPage: number, pages: number, pagesMax: number): PageRange[] {
  const toPage = Math.min(fromPage + pagesMax, pages);
  const restCount = Math.min(pagesMax - (toPage - fromPage), fromPage);
  const first = { fromPage, toPage };
  return restCount > 0 ? [first, { fromPage: 0, toPage: restCount }] : [first];
}
