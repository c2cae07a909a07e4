import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import { IconPlus } from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { useSearchedPage } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useTotal } from '~/resources/list/list-parts.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import { tokenColumns } from './token-columns.tsx';
import type { Token } from './token-state.ts';

const TokenDialog = lazyDialog('isOpen', () =>
  import('./token-dialog.tsx').then((module) => module.TokenDialog),
);

const RevokeTokenDialog = lazyDialog('token', () =>
  import('./revoke-token-dialog.tsx').then((module) => module.RevokeTokenDialog),
);

const TokenDetailsDialog = lazyDialog('token', () =>
  import('./token-details-dialog.tsx').then((module) => module.TokenDetailsDialog),
);

/** The tokens with which services, scripts and drones authenticate. */
export function TokensTab() {
  const [isMaking, making] = useDisclosure(false);
  const [revoked, setRevoked] = useState<Token | null>(null);
  const [shown, setShown] = useState<Token | null>(null);
  const columns = useMemo(() => tokenColumns({ revoke: setRevoked, show: setShown }), []);
  const { page, state, q, setQ } = useSearchedPage();
  const read = useLiveQuery('tokens', 'list', page);
  const total = useTotal('tokens', page, read);
  return (
    <>
      <FilterRow>
        <SearchBox
          label="Search API tokens"
          placeholder="Part of a name, or of a drone’s id"
          value={q}
          onChange={setQ}
        />
        <Button leftSection={<IconPlus size={14} aria-hidden />} onClick={making.open}>
          New token
        </Button>
      </FilterRow>
      <DataTable
        label="API tokens"
        columns={columns}
        read={read}
        rowId={(token) => token.tokenId}
        state={state}
        identity={JSON.stringify(page)}
        total={total}
        empty={
          q === '' ? (
            <EmptyState title="No API tokens">
              Services, scripts and drones each need one to use Leasehold.
            </EmptyState>
          ) : (
            <EmptyState title="No API tokens match">Clear the search to see all.</EmptyState>
          )
        }
      />
      <TokenDialog isOpen={isMaking} onClose={making.close} />
      <TokenDetailsDialog token={shown} onClose={() => setShown(null)} />
      <RevokeTokenDialog token={revoked} onClose={() => setRevoked(null)} />
    </>
  );
}
