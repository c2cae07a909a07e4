import { BACKEND_SORTS } from '@leasehold/keys-core';
import type { KeyView } from '@leasehold/keys-core/keys';
import { SegmentedControl } from '@mantine/core';
import { parseAsString, parseAsStringLiteral, useQueryStates } from 'nuqs';
import { usePage, useSort } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, routes } from '~/lib/routes.ts';
import { keyBackendLook, PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { DetailTabs } from '~/ui/detail-page.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { backendColumns } from '../../backends/backend-columns.tsx';

const SHOWN = ['running', 'all'] as const;
const EVERY_MS = 3_000;

/** The drone whose backends and keys the tabs show. */
interface OfDrone {
  readonly droneId: string;
  /** The drone's datacenter; if empty, this controller's. */
  readonly datacenter: string;
}

export function DroneTabs(of: OfDrone) {
  return (
    <DetailTabs
      tabs={[
        { value: 'backends', label: 'Backends', panel: <Backends {...of} /> },
        { value: 'keys', label: 'Keys', panel: <Keys {...of} /> },
      ]}
    />
  );
}

const COLUMNS = backendColumns({ isOfDrone: true });
/** A running backend has no end to show. */
const RUNNING_COLUMNS = COLUMNS.filter(({ header }) => header !== 'Ended because');

function Backends({ droneId, datacenter }: OfDrone) {
  const { page, state } = usePage();
  const [{ show }, setAddress] = useQueryStates(
    { show: parseAsStringLiteral(SHOWN).withDefault('running'), after: parseAsString },
    { history: 'push' },
  );
  const live = show === 'running' || undefined;
  const sorted = useSort(BACKEND_SORTS, 'desc');
  const input = { droneId, live, ...at(datacenter), ...page, ...sorted.input };
  const read = useLiveQuery('backends', 'list', input, { everyMs: EVERY_MS });
  return (
    <>
      <FilterRow>
        <SegmentedControl
          aria-label="Which backends"
          value={show}
          data={[
            { value: 'running', label: 'Running' },
            { value: 'all', label: 'Also ended' },
          ]}
          onChange={(value) =>
            void setAddress({ show: value as (typeof SHOWN)[number], after: null })
          }
        />
      </FilterRow>
      <DataTable
        label="backends of this drone"
        columns={show === 'running' ? RUNNING_COLUMNS : COLUMNS}
        read={read}
        rowId={(backend) => backend.backendId}
        state={{ ...state, ...sorted.table }}
        identity={JSON.stringify(input)}
        empty={
          <EmptyState title={show === 'running' ? 'No running backends' : 'No backends yet'}>
            A backend starts here when a caller connects to a free key and this drone has room.
          </EmptyState>
        }
      />
    </>
  );
}

function Keys({ droneId, datacenter }: OfDrone) {
  const { page, state } = usePage();
  const input = { droneId, ...at(datacenter), ...page };
  const read = useLiveQuery('keys', 'list', input, { everyMs: EVERY_MS });
  return (
    <DataTable
      label="keys of this drone"
      columns={DRONE_KEY_COLUMNS}
      read={read}
      rowId={(key) => key.leaseId}
      state={state}
      identity={JSON.stringify(input)}
      empty={
        <EmptyState title="No keys held">
          A drone holds a key while the key’s backend runs on it.
        </EmptyState>
      }
    />
  );
}

/** The columns of keys on the page of their drone. */
const DRONE_KEY_COLUMNS: Column<KeyView>[] = [
  column('Key', {}, (key) => (
    <>
      <Link href={routes.key(key)}>
        <VisibleText>{key.name}</VisibleText>
      </Link>
      <Under upTo="sm">
        <VisibleText>{key.namespace}</VisibleText>
      </Under>
    </>
  )),
  column('Namespace', { from: 'sm' }, (key) => <VisibleText>{key.namespace}</VisibleText>),
  column('Phase', {}, (key) => (
    <>
      <PhaseBadge phase={key.phase} />
      <Under upTo="md">
        <BackendState item={key} />
      </Under>
    </>
  )),
  column('Remaining', { from: 'sm' }, (key) => <Remaining {...key} />),
  column('Backend', { from: 'md' }, (key) =>
    key.backendId === null ? (
      '–'
    ) : (
      <Link href={routes.backend(key.backendId, key.datacenter)}>
        <Mono>{key.backendId}</Mono>
      </Link>
    ),
  ),
  column('Status', { from: 'md' }, (key) => <BackendState item={key} />),
  column('Token', { from: 'lg', align: 'end' }, (key) => <Mono>{key.fencingToken}</Mono>),
  column('Granted', { from: 'md' }, (key) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />),
];

function BackendState({ item }: { readonly item: KeyView }) {
  const look = keyBackendLook(item);
  return look === undefined ? null : (
    <LookBadge look={look} isPlain={item.backendEnd?.hasFailed !== true} />
  );
}
