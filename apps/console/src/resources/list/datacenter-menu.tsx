import { type DatacenterFilter, useDatacenters } from '~/lib/datacenters/use-datacenters.ts';
import { FilterMenu } from '~/ui/menus/filter-menu.tsx';

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
