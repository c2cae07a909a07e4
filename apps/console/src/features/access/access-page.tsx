'use client';

import { Button } from '@mantine/core';
import { useDisclosure } from '@mantine/hooks';
import {
  IconCircleCheck,
  IconCircleX,
  IconClockPause,
  IconHourglass,
  IconPlus,
} from '@tabler/icons-react';
import dynamic from 'next/dynamic';
import { useMemo, useState } from 'react';
import { ROLE_LABELS } from '~/lib/auth.ts';
import { useSearchedPage } from '~/lib/list-state.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { useTotal } from '~/resources/list/list-parts.tsx';
import { DetailTabs } from '~/ui/detail-page.tsx';
import { SearchBox } from '~/ui/filters.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { RowMenu } from '~/ui/menus.tsx';
import { FilterRow, PageHeader } from '~/ui/page.tsx';
import { EmptyState, NotAllowed } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { DataTable } from '~/ui/table/data-table.tsx';
import { Link, type Look, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { revokeProblem, type Token, type TokenState, tokenState } from './states.ts';

// What a first visit does not show is loaded with its tab.
const PeopleTab = dynamic(() => import('./people-tab.tsx').then((module) => module.PeopleTab));

/** The people and tokens that have access, and their roles. */
export function AccessPage() {
  const whyNot = useWhyNot('admin');
  return (
    <>
      <PageHeader title="Access" />
      {whyNot === undefined ? (
        <DetailTabs
          tabs={[
            { value: 'tokens', label: 'API tokens', panel: <TokensTab /> },
            { value: 'people', label: 'People', panel: <PeopleTab /> },
          ]}
        />
      ) : (
        <NotAllowed whyNot={whyNot}>
          Administrators create API tokens and decide who may sign in here.
        </NotAllowed>
      )}
    </>
  );
}

const TokenDialog = lazyDialog('isOpen', () =>
  import('./token-dialogs.tsx').then((module) => module.TokenDialog),
);

const RevokeTokenDialog = lazyDialog('token', () =>
  import('./token-dialogs.tsx').then((module) => module.RevokeTokenDialog),
);

const TokenDetailsDialog = lazyDialog('token', () =>
  import('./token-dialogs.tsx').then((module) => module.TokenDetailsDialog),
);

/** The tokens with which services, scripts and drones authenticate. */
function TokensTab() {
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

const TOKEN_LOOKS: Record<TokenState, Look> = {
  active: { label: 'Active', tone: 'good', icon: IconCircleCheck },
  ending: { label: 'Expiring', tone: 'warn', icon: IconHourglass },
  expired: { label: 'Expired', tone: 'calm', icon: IconClockPause },
  revoked: { label: 'Revoked', tone: 'calm', icon: IconCircleX },
};

/** What the menu of a row opens. */
interface TokenActs {
  readonly show: (token: Token) => void;
  readonly revoke: (token: Token) => void;
}

function tokenColumns(acts: TokenActs): Column<Token>[] {
  return [
    column('Name', {}, (token) => (
      <>
        <strong>
          <VisibleText>{token.name}</VisibleText>
        </strong>
        <Under upTo="sm">{ROLE_LABELS[token.role]}</Under>
      </>
    )),
    column('State', {}, (token) => <TokenBadge token={token} />),
    column('Role', { from: 'sm' }, (token) => ROLE_LABELS[token.role]),
    column('Limits', { from: 'md' }, (token) => <Limits token={token} />),
    column('Last used', { from: 'sm' }, (token) =>
      token.lastUsedAt === null ? 'never' : <RelativeTime at={token.lastUsedAt} />,
    ),
    column('Expires', { from: 'lg' }, (token) =>
      token.expiresAt === null ? 'never' : <RelativeTime at={token.expiresAt} />,
    ),
    column('Created', { from: 'xl', isFilling: true }, (token) => (
      <>
        <RelativeTime at={token.createdAt} /> by {token.createdBy}
      </>
    )),
    column('Actions', { isHeadHidden: true, align: 'end' }, (token) => (
      <TokenMenu token={token} acts={acts} />
    )),
  ];
}

function useTokenState(token: Token) {
  const nowMs = useDatabaseNow();
  return tokenState(token, nowMs ?? Date.parse(token.createdAt));
}

function TokenBadge({ token }: { readonly token: Token }) {
  return <LookBadge look={TOKEN_LOOKS[useTokenState(token)]} />;
}

function TokenMenu({ token, acts }: { readonly token: Token; readonly acts: TokenActs }) {
  const state = useTokenState(token);
  return (
    <RowMenu
      of={token.name}
      acts={[
        {
          label: 'Show limits',
          whyNot: undefined,
          onClick: () => acts.show(token),
        },
        {
          label: 'Revoke',
          whyNot: revokeProblem(state),
          isDangerous: true,
          onClick: () => acts.revoke(token),
        },
      ]}
    />
  );
}

function Limits({ token: { namespaces, droneId } }: { readonly token: Token }) {
  if (droneId !== null) return <Link href={routes.drone(droneId)}>{droneId}</Link>;
  return namespaces === null ? 'no limit' : <Mono>{namespaces.join(', ')}</Mono>;
}
