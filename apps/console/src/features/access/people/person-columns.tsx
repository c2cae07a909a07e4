import { Text } from '@mantine/core';
import { PERSON_LOOKS } from '../looks.ts';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { duration } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useSession } from '~/lib/session.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { LookBadge, RelativeTime, Under } from '~/ui/text.tsx';
import {
  actsFor,
  isLastAdmin,
  type Person,
  type PersonAct,
  personActProblem,
  personState,
  type PersonState,
} from './person-state.ts';

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

export function personColumns(shown: PeopleShown): Column<Person>[] {
  return [
    column('Person', {}, (person) => <Who person={person} />),
    column('State', {}, (person) => <PersonBadge person={person} />),
    column('Role', { from: 'sm' }, (person) => ROLE_LABELS[person.role]),
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
        {ROLE_LABELS[person.role]}
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
