import { column, type Column } from '~/ui/table/column.ts';
import { Mono } from '~/ui/text/mono.tsx';

const HEADER = 'Datacenter';

/**
 * A list's columns, with one for the datacenter of each row after the first; unchanged if there is
 * only one datacenter. `isAlways`: on the narrowest page too, because that is what the list is about.
 */
export function withDatacenter<Item extends { readonly datacenter: string }>(
  columns: readonly Column<Item>[],
  isSeveral: boolean,
  { isAlways = false }: { readonly isAlways?: boolean } = {},
): readonly Column<Item>[] {
  if (!isSeveral) return columns;
  const [first, ...rest] = columns.filter(({ header }) => header !== HEADER);
  const datacenter = column<Item>(HEADER, isAlways ? {} : { from: 'sm' }, (item) => (
    <Mono>{item.datacenter}</Mono>
  ));
  return first === undefined ? [datacenter] : [first, datacenter, ...rest];
}
