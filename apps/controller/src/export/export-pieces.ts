import { appRouter, type ApiContext } from '@leasehold/api';
import { LeaseError } from '@leasehold/keys-core';
import type { ExportList, ExportPage } from './export-lists.ts';
import type { ExportRequest } from './export-query.ts';
import type { ExportText } from './export-text.ts';

/** Rows of one export. A caller that wants more requests parts, such as a namespace or a month. */
const EXPORT_ROWS_MAX = 1_000_000;

type Pages = AsyncGenerator<readonly object[], undefined>;

/** The pages of a list, each read when it is asked for. */
export async function* pagesOf(
  list: ExportList,
  { input }: ExportRequest,
  context: ApiContext,
): Pages {
  const api = appRouter.createCaller(context);
  let cursor: string | undefined;
  do {
    const page: ExportPage = await list.readPage(api, { ...input, cursor });
    assertWhole(page);
    yield page.items;
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

/**
 * A file of all datacenters must not be taken for complete when one of them is missing.
 * @throws {LeaseError} `reservation.datacenter_unreachable`.
 */
function assertWhole({ unreachable = [] }: ExportPage): void {
  const [missing] = unreachable;
  if (missing === undefined) return;
  const { datacenter, code } = missing;
  throw new LeaseError(
    'reservation.datacenter_unreachable',
    `The datacenter "${datacenter}" cannot be reached now, so the export would be incomplete.`,
    { details: { datacenter, code } },
  );
}

/**
 * The text of an export, piece by piece. @throws {LeaseError} `request.too_large` in place of what is
 * over {@link EXPORT_ROWS_MAX}, so that a part is not taken for all.
 */
export async function* textOf(
  first: IteratorResult<readonly object[], undefined>,
  pages: Pages,
  text: ExportText,
  rowsMax: number = EXPORT_ROWS_MAX,
): AsyncGenerator<string, void> {
  let rowCount = 0;
  yield text.begin;
  for (let page = first; page.done !== true; page = await pages.next()) {
    rowCount += page.value.length;
    if (rowCount > rowsMax) {
      throw new LeaseError('request.too_large', `An export has ${String(rowsMax)} rows at most.`);
    }
    yield text.page(page.value);
  }
  yield text.end;
}
