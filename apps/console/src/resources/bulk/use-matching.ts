import { LIMITS } from '@leasehold/keys-core';
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import type { ApiError } from '~/lib/api/api-error.ts';
import { query } from '~/lib/api/api.ts';
import { type GrantFace, type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import type { ListPage } from '~/ui/table/table-state.ts';

/** The input of a list of grants, of any page. */
export type ListedInput = object & { readonly datacenter?: string | undefined };

interface Matching {
  readonly items: GrantView[];
  /** Whether more match than one bulk action may have. */
  readonly isCut: boolean;
}

/**
 * Reads everything that the search of a list finds in this datacenter, page by page, up to what one bulk action may have.
 * `readCount` grows meanwhile; null while nothing is read.
 */
export function useMatching(face: GrantFace, input: ListedInput) {
  const client = useQueryClient();
  const [readCount, setReadCount] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
    };
  }, []);
  const read = useCallback(
    async (onRead: (matching: Matching) => void): Promise<void> => {
      setReadCount(0);
      setError(null);
      try {
        const items: GrantView[] = [];
        let cursor: string | null = null;
        do {
          const page: ListPage<GrantView> = await client.query({
            ...query(GROUP_OF[face], 'list', {
              ...input,
              ...{ datacenter: undefined, cursor: cursor ?? undefined, limit: LIMITS.pageSizeMax },
            }),
            // Only for the selection: no other part of the page shows it.
            ...{ staleTime: 0, gcTime: 0 },
          });
          if (isGone.current) return;
          items.push(...page.items);
          cursor = page.nextCursor;
          setReadCount(items.length);
        } while (cursor !== null && items.length < LIMITS.bulkItemsMax);
        onRead({
          items: items.slice(0, LIMITS.bulkItemsMax),
          isCut: cursor !== null || items.length > LIMITS.bulkItemsMax,
        });
      } catch (failure) {
        if (!isGone.current) setError(failure as ApiError);
      } finally {
        if (!isGone.current) setReadCount(null);
      }
    },
    [client, face, input],
  );
  return { read, readCount, error };
}
