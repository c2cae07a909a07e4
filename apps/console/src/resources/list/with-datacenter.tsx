import type { ColumnDef } from '@tanstack/react-table';
import { Mono } from '~/ui/text/mono.tsx';

const ID = 'datacenter';

/**
 * A list's columns, with one for the datacenter of each row after the first; unchanged if there is
 * only one datacenter. `isAlways`: on the narrowest page too, because that is what the list is about.
 */
export function withDatacenter<Item extends { readonly datacenter: string }>(
  columns: readonly ColumnDef<Item>[],
  isSeveral: boolean,
  { isAlways = false }: { readonly isAlways?: boolean } = {},
): ColumnDef<Item>[] {
  if (!isSeveral) return [...columns];
  const [first, ...rest] = columns.filter(({ id }) => id !== ID);
  const column: ColumnDef<Item> = {
    id: ID,
    header: 'Datacenter',
    meta: isAlways ? {} : { from: 'sm' },
    cell: ({ row: { original: item } }) => <Mono>{item.datacenter}</Mono>,
  };
  return first === undefined ? [column] : [first, column, ...rest];
}
