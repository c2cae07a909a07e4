import { useQuery } from '@tanstack/react-query';
import { textParam, useQueryState } from '~/lib/address.ts';
import { type Outputs, query } from '~/lib/api/api.ts';
import type { ResourceRef } from '~/lib/routes.ts';

const LOOK_EVERY_MS = 700;
const STORED = 'leasehold.bulk';

/** The bulk action that the page shows, in its address. */
export function useBulkId(): readonly [string | null, (bulkId: string | null) => void] {
  const [bulkId, setBulkId] = useQueryState('bulk', textParam, 'replace');
  return [bulkId, (next) => setBulkId(next)];
}

type BulkProgress = Outputs['bulk']['get'];

/** Whether a bulk action still has something to do. */
export function isUnderWay({ state }: Pick<BulkProgress, 'state'>): boolean {
  return state === 'running' || state === 'interrupted';
}

/**
 * Whether all is over: carried out or aborted, and what was revoked has stopped. A controller of the version
 * before does not say what is stopping.
 */
export function isAllOver(progress: BulkProgress): boolean {
  const { stopping } = progress as Partial<BulkProgress>;
  return !isUnderWay(progress) && (stopping ?? 0) === 0;
}

/** How far a bulk action is, read again until all is over, even behind a dialog. */
export function useBulkProgress(bulkId: string) {
  return useQuery({
    ...query('bulk', 'get', { bulkId }),
    refetchInterval: ({ state: { data } }) =>
      data === undefined || !isAllOver(data) ? LOOK_EVERY_MS : false,
  });
}

/** Keeps the names of the chosen grants for this tab, because the API answers lease ids. */
export function rememberBulk(
  bulkId: string,
  items: readonly (ResourceRef & { readonly leaseId: string })[],
): void {
  const names = Object.fromEntries(
    items.map(({ leaseId, namespace, name }) => [leaseId, { namespace, name }]),
  );
  try {
    window.sessionStorage.setItem(STORED, JSON.stringify({ bulkId, names }));
  } catch {
    // The tab's storage is full: the ids are shown then.
  }
}

/** The names of the grants in a bulk action of this tab, by lease id. */
export function namesOfBulk(bulkId: string): Readonly<Record<string, ResourceRef>> {
  try {
    const text = window.sessionStorage.getItem(STORED);
    const stored = (text === null ? null : JSON.parse(text)) as {
      bulkId?: unknown;
      names?: Record<string, ResourceRef>;
    } | null;
    return stored?.bulkId === bulkId ? (stored.names ?? {}) : {};
  } catch {
    return {};
  }
}
