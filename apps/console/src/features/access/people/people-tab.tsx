import { Button } from '@mantine/core';
import { IconUserPlus } from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { useSearchedPage } from '~/lib/list-state.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useTotal } from '~/resources/list/list-parts.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { DataTable } from '~/ui/table/data-table.tsx';
import type { PersonActRequest } from './person-act-dialog.tsx';
import { personColumns } from './person-columns.tsx';
import type { Person } from './person-state.ts';

const PersonActDialog = lazyDialog('request', () =>
  import('./person-act-dialog.tsx').then((module) => module.PersonActDialog),
);

const InviteDialog = lazyDialog('invited', () =>
  import('./invite-dialog.tsx').then((module) => module.InviteDialog),
);

const ResetPasswordDialog = lazyDialog('person', () =>
  import('./reset-password-dialog.tsx').then((module) => module.ResetPasswordDialog),
);

/** Who may sign in to the console. */
export function PeopleTab() {
  const [request, setRequest] = useState<PersonActRequest | null>(null);
  const [forgetful, setForgetful] = useState<Person | null>(null);
  const [invited, setInvited] = useState<Person | 'somebody' | null>(null);
  const { page, state, q, setQ } = useSearchedPage();
  const read = useLiveQuery('people', 'list', page);
  const total = useTotal('people', page, read);
  const people = read.data?.items;
  const isWhole = q === '' && state.after === null && read.data?.nextCursor === null;
  const columns = useMemo(
    () =>
      personColumns({
        people: people ?? [],
        isWhole,
        begin: (act, person) => {
          if (act === 'invite') setInvited(person);
          else if (act === 'resetPassword') setForgetful(person);
          else setRequest({ act, person });
        },
      }),
    [people, isWhole],
  );
  return (
    <>
      <FilterRow>
        <SearchBox
          label="Search people"
          placeholder="Part of a name or an address"
          value={q}
          onChange={setQ}
        />
        <Button
          leftSection={<IconUserPlus size={14} aria-hidden />}
          onClick={() => setInvited('somebody')}
        >
          Invite
        </Button>
      </FilterRow>
      <DataTable
        label="people"
        columns={columns}
        read={read}
        rowId={(person) => person.personId}
        state={state}
        identity={JSON.stringify(page)}
        total={total}
        empty={
          q === '' ? (
            <EmptyState title="No people yet">Invite the people who may sign in here.</EmptyState>
          ) : (
            <EmptyState title="No people match">Clear the search to see everybody.</EmptyState>
          )
        }
      />
      <InviteDialog invited={invited} onClose={() => setInvited(null)} />
      <ResetPasswordDialog person={forgetful} onClose={() => setForgetful(null)} />
      <PersonActDialog request={request} onClose={() => setRequest(null)} />
    </>
  );
}
