'use client';

import { parseAsString, useQueryState } from 'nuqs';
import { at } from '~/lib/datacenters/here.ts';
import type { ResourceRef } from '~/lib/routes.ts';

const PER_PAGE = 100;

/** A list about one resource, on its page: its input, and what its table needs of the address. */
export function useDetailList({ namespace, name, datacenter }: ResourceRef) {
  const [after, setAfter] = useQueryState('after', parseAsString.withOptions({ history: 'push' }));
  const input = {
    ...{ namespace, name, ...at(datacenter), limit: PER_PAGE },
    ...(after === null ? {} : { cursor: after }),
  };
  return {
    input,
    isFirstPage: after === null,
    table: {
      state: { after, setAfter: (next: string | null) => void setAfter(next) },
      identity: JSON.stringify(input),
    },
  };
}
