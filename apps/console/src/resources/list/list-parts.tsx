import { Button, Group } from '@mantine/core';
import { IconDownload } from '@tabler/icons-react';
import type { ReactNode } from 'react';
import type { Count } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import { type DatacenterFilter, useDatacenters } from '~/lib/datacenters.ts';
import type { ListState } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { exportAddress, type ExportedList } from '~/lib/routes.ts';
import { withField } from '~/lib/search.ts';
import { FilterMenu } from '~/ui/filters.tsx';
import { LazyMenu } from '~/ui/menus.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { Mono } from '~/ui/text.tsx';
import { ANY_PHASE } from './grant-search.ts';

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

/** For an empty list: because of the search, or without one, which `children` explains. */
export function NothingFound({
  what,
  state,
  children,
}: {
  /** `leases` */
  readonly what: string;
  readonly state: Pick<ListState<string>, 'q' | 'search' | 'setQ' | 'isFiltered' | 'after'>;
  readonly children: ReactNode;
}) {
  if (!state.isFiltered && state.after === null) return children;
  return (
    <EmptyState
      title={`No ${what} match`}
      action={
        <Group gap="xs" justify="center">
          <Button variant="default" onClick={() => state.setQ('')}>
            Clear the search
          </Button>
          {state.search.fields['phase'] === undefined && <LongOver what={what} state={state} />}
        </Group>
      }
    >
      The search finds any part of a name with its namespace. Write{' '}
      <span className="mono">&quot;name&quot;</span> for a whole name, and{' '}
      <span className="mono">field:value</span> for other fields.
    </EmptyState>
  );
}

/** Lists what ended long ago too. */
export function LongOver({
  what,
  state,
}: {
  /** `leases` */
  readonly what: string;
  readonly state: Pick<ListState<string>, 'q' | 'setQ'>;
}) {
  return (
    <Button variant="default" onClick={() => state.setQ(withField(state.q, 'phase', ANY_PHASE))}>
      Show {what} that ended earlier
    </Button>
  );
}

/** All results of the current query, as a file that the browser loads beside the page. */
export function ExportMenu({
  list,
  input,
  isDisabled = false,
}: {
  readonly list: ExportedList;
  /** The input of the list's procedure; its page is left out. */
  readonly input: object;
  /** While a part of the search is wrong: it is left out of the input, so that too much would be exported. */
  readonly isDisabled?: boolean;
}) {
  const filters = input as Readonly<Record<string, unknown>>;
  return (
    <LazyMenu
      position="bottom-end"
      button={(props) => (
        <Button
          {...props}
          variant="default"
          leftSection={<IconDownload size={14} />}
          disabled={isDisabled}
        >
          Export
        </Button>
      )}
    >
      {(menu) => (
        <>
          <menu.Label>Everything that this search finds</menu.Label>
          {(['csv', 'json'] as const).map((format) => (
            <menu.Item
              key={format}
              component="a"
              href={exportAddress(list, format, filters)}
              download
            >
              {format.toUpperCase()}
            </menu.Item>
          ))}
        </>
      )}
    </LazyMenu>
  );
}

/** The groups of procedures whose lists can be counted. */
type Counted =
  | 'keys'
  | 'leases'
  | 'environments'
  | 'reservations'
  | 'drones'
  | 'backends'
  | 'events'
  | 'audit'
  | 'people'
  | 'tokens';

/** A total changes little, and is read beside a page that is read often. */
const EVERY_MS = 30_000;

/** What asks for one page of a list, and not for which rows it has. */
const OF_A_PAGE = ['limit', 'cursor', 'sort', 'direction'];

/**
 * How many rows all pages of a list have. Asked for on its own, so that no page waits for it, and only
 * where the page that is shown does not answer it: one that is the first and the last has every row.
 */
export function useTotal<G extends Counted>(
  group: G,
  input: NonNullable<Inputs[G]['list']>,
  read: { readonly data?: { readonly nextCursor: string | null } | undefined },
): Count | undefined {
  const filter = Object.fromEntries(
    Object.entries(input).filter(([field]) => !OF_A_PAGE.includes(field)),
  );
  const isMore = typeof read.data?.nextCursor === 'string';
  const counted = useLiveQuery(group, 'count', filter as Inputs[G]['count'], {
    everyMs: EVERY_MS,
    isOnTimer: true,
    enabled: isMore,
  });
  return counted.data as Count | undefined;
}
