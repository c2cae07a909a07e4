import { at } from '~/lib/here.ts';
import { usePage } from '~/lib/list-state.ts';
import type { ResourceRef } from '~/lib/routes.ts';

/** A list about one resource, on its page: its input, and what its table needs of the address. */
export function useDetailList({ namespace, name, datacenter }: ResourceRef) {
  const { page, state } = usePage();
  const input = { namespace, name, ...at(datacenter), ...page };
  return {
    input,
    isFirstPage: state.after === null,
    table: { state, identity: JSON.stringify(input) },
  };
}
