/** Which rows of a list a page shows, in words: `1 to 100 of 100,013`. Pure. */
import type { Count } from '@leasehold/keys-core';
import { counted, count as shown } from '~/lib/format.ts';

interface PagePlace {
  /** How many rows the pages before this one have; null if that is not known. */
  readonly before: number | null;
  /** Undefined until they were read. */
  readonly rowCount: number | undefined;
  readonly hasNext: boolean;
  /** Undefined until it has been counted. */
  readonly total: Count | undefined;
}

/** Where a page is in its list. What cannot be known is not shown as known. */
export function placeText({ before, rowCount, hasNext, total }: PagePlace): string {
  if (rowCount === undefined) return '';
  if (before === null) {
    return total === undefined || !hasNext
      ? counted(rowCount, 'row')
      : `${counted(rowCount, 'row')} of ${totalText(total, rowCount)}`;
  }
  const end = before + rowCount;
  if (!hasNext && before === 0) return counted(rowCount, 'row');
  const range = rowCount === 0 ? 'None' : `${shown(before + 1)} to ${shown(end)}`;
  if (!hasNext) return `${range} of ${shown(end)}`;
  return `${range} of ${totalText(total ?? { count: end, isExact: false }, end)}`;
}

/** There is a next page, so a total that is no higher than what is shown was counted before it changed. */
function totalText({ count, isExact }: Count, atLeast: number): string {
  if (count <= atLeast) return `more than ${shown(atLeast)}`;
  return isExact ? shown(count) : `at least ${shown(count)}`;
}
