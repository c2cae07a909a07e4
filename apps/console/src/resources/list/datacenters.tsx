import { type DatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import { FilterMenu } from '~/ui/filters.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Mono } from '~/ui/text.tsx';

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

/** The datacenter whose rows a list shows; no menu if there is only one. */
export function DatacenterMenu({ filter }: { readonly filter: DatacenterFilter }) {
  const { items, here } = useDatacenters();
  if (!filter.isSeveral) return null;
  return (
    <FilterMenu
      label="Datacenter"
      value={filter.chosen ?? undefined}
      options={items.map(({ name, isReachable }) => ({
        value: name,
        label: `${name}${name === here ? ', this one' : ''}${isReachable ? '' : ', cannot be reached'}`,
      }))}
      onChange={filter.setChosen}
    />
  );
}
