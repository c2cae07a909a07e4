import { Button, Text } from '@mantine/core';
import {
  IconCircleCheck,
  IconCircleX,
  IconLock,
  IconMail,
  IconUserPlus,
} from '@tabler/icons-react';
import { useMemo, useState } from 'react';
import { duration } from '~/lib/format.ts';
import { useSearchedPage } from '~/lib/list-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useSession } from '~/lib/session.tsx';
import { useTotal } from '~/resources/list/list-parts.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { FilterRow } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { type Look, LookBadge, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import type { PersonActRequest } from './person-dialogs.tsx';
import {
  actsFor,
  isLastAdmin,
  type Person,
  type PersonAct,
  personActProblem,
  type PersonState,
  personState,
  roleText,
} from './states.ts';

const PersonActDialog = lazyDialog('request', () =>
  import('./person-dialogs.tsx').then((module) => module.PersonActDialog),
);

const InviteDialog = lazyDialog('invited', () =>
  import('./person-dialogs.tsx').then((module) => module.InviteDialog),
);

const ResetPasswordDialog = lazyDialog('person', () =>
  import('./person-dialogs.tsx').then((module) => module.ResetPasswordDialog),
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

const PERSON_LOOKS: Record<PersonState, Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  invited: { label: 'Invited', tone: 'info', icon: IconMail },
  locked: { label: 'Locked', tone: 'bad', icon: IconLock },
  disabled: { label: 'Disabled', tone: 'calm', icon: IconCircleX },
};

/** The list that a person is in, and the function that opens the dialog of an act. */
interface PeopleShown {
  readonly people: readonly Person[];
  /** The list has no other page. */
  readonly isWhole: boolean;
  readonly begin: (act: PersonAct, person: Person) => void;
}

const ACT_LABELS: Record<PersonAct, string> = {
  setRole: 'Change role',
  invite: 'Invite again',
  resetPassword: 'Reset password',
  unlock: 'Unlock',
  enable: 'Enable',
  disable: 'Disable',
  signOutEverywhere: 'Sign out everywhere',
};

const METHODS = { password: 'password', oidc: 'identity provider' } as const;

function personColumns(shown: PeopleShown): Column<Person>[] {
  return [
    column('Person', {}, (person) => <Who person={person} />),
    column('State', {}, (person) => <PersonBadge person={person} />),
    column('Role', { from: 'sm' }, (person) => <VisibleText>{roleText(person)}</VisibleText>),
    column('Signs in with', { from: 'md' }, (person) =>
      person.signInMethods.length === 0
        ? '–'
        : person.signInMethods.map((method) => METHODS[method]).join(', '),
    ),
    column('Sessions', { from: 'md', align: 'end' }, (person) => person.sessionCount),
    column('Last sign-in', { from: 'md' }, (person) =>
      person.lastSignInAt === null ? 'never' : <RelativeTime at={person.lastSignInAt} />,
    ),
    column('Actions', { isHeadHidden: true, align: 'end' }, (person) => (
      <PersonMenu person={person} shown={shown} />
    )),
  ];
}

function usePersonState(person: Person): PersonState {
  const nowMs = useDatabaseNow();
  return personState(person, nowMs ?? Date.parse(person.createdAt));
}

function Who({ person }: { readonly person: Person }) {
  const { person: me } = useSession();
  const isMe = me?.personId === person.personId;
  const isNamed = person.name !== '' && person.name !== person.email;
  return (
    <>
      <strong>{isNamed ? person.name : person.email}</strong>
      {isMe ? ' (you)' : ''}
      {isNamed ? (
        <Text component="span" size="sm" c="dimmed" ml={8} visibleFrom="sm">
          {person.email}
        </Text>
      ) : null}
      <Under upTo="sm">
        {isNamed ? <div>{person.email}</div> : null}
        <VisibleText>{roleText(person)}</VisibleText>
      </Under>
    </>
  );
}

function PersonBadge({ person }: { readonly person: Person }) {
  const state = usePersonState(person);
  const nowMs = useDatabaseNow();
  const restMs =
    state === 'locked' && nowMs !== null ? Date.parse(person.lockedUntil ?? '') - nowMs : null;
  return (
    <>
      <LookBadge look={PERSON_LOOKS[state]} />
      {restMs === null ? null : (
        <Text component="span" size="xs" c="dimmed" ml={6}>
          for {duration(restMs)}
        </Text>
      )}
    </>
  );
}

function PersonMenu({ person, shown }: { readonly person: Person; readonly shown: PeopleShown }) {
  const { person: me } = useSession();
  const state = usePersonState(person);
  const among = {
    meId: me?.personId ?? null,
    isLastAdmin: isLastAdmin(person, shown.people, shown.isWhole),
    state,
  };
  return (
    <RowMenu
      of={person.email}
      acts={actsFor(state).map((act) => ({
        label: ACT_LABELS[act],
        whyNot: personActProblem(act, person, among),
        isDangerous: act === 'disable',
        onClick: () => shown.begin(act, person),
      }))}
    />
  );
}
