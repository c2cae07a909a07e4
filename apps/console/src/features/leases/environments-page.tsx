'use client';

import { Code } from '@mantine/core';
import dynamic from 'next/dynamic';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { GrantList, useGrantListState } from '~/resources/list/grant-list.tsx';
import { ENVIRONMENT_FIELDS, environmentListInput } from '~/resources/list/grant-search.ts';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { FreezeButton, FrozenMark } from './freezes.tsx';
import {
  CommentCell,
  endedAt,
  HolderCell,
  isTaken,
  type LeaseItem,
  NameCell,
  NamespaceCell,
} from './lease-cells.tsx';
import freezeClasses from './freezes.module.css';
import classes from './leases.module.css';

// Loaded after what is seen first.
const FreezesPanel = dynamic(() =>
  import('./freezes-panel.tsx').then((module) => module.FreezesPanel),
);

/** Every environment: free or held, by whom, for which action, since when. */
export function EnvironmentsPage() {
  const list = useGrantListState(ENVIRONMENT_FIELDS, environmentListInput);
  const read = useLiveQuery('environments', 'list', list.input, list.options);
  const total = useTotal('environments', list.input, read);
  return (
    <>
      <PageHeader
        title="Environments"
        actions={
          <>
            <FreezeButton />
            <ExportMenu list="environments" input={list.input} isDisabled={!list.options.enabled} />
          </>
        }
      />
      <div className={freezeClasses['freezes']}>
        <FreezesPanel />
      </div>
      <div className={classes['list']}>
        <GrantList
          face="environment"
          list={list}
          read={read}
          total={total}
          columns={ENVIRONMENT_COLUMNS}
          placeholder="Part of a name, or holder: phase: action: namespace:"
          phaseLabel="State"
        >
          <EmptyState
            title="No environments"
            action={<LongOver what="environments" state={list.state} />}
          >
            None was held in the last 7 days. An environment appears when a caller first acquires
            it: <Code>withEnvironmentLease(…)</Code> of <Code>@leasehold/client</Code>.
          </EmptyState>
        </GrantList>
      </div>
    </>
  );
}

/** The last holder and the last action of a free environment are pale. */
export const tone = (environment: LeaseItem): string => (isTaken(environment) ? '' : 'dimmed');

const ENVIRONMENT_COLUMNS: Column<LeaseItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (environment) => (
    <NamespaceCell resource={environment} />
  )),
  column('Environment', { sort: 'name' }, (environment) => (
    <>
      <NameCell resource={environment} href={routes.environment(environment)} />
      <Under upTo="sm">
        <HolderCell lease={environment} />
      </Under>
    </>
  )),
  column('State', {}, (environment) => (
    <>
      <PhaseBadge phase={environment.phase} />
      <FrozenMark environment={environment} />
    </>
  )),
  column('Holder', { from: 'sm' }, (environment) => <HolderCell lease={environment} />),
  column('Action', {}, (environment) => (
    <>
      <span
        className={`${classes['action'] ?? ''} mono ${tone(environment)}`}
        dir="auto"
        title={environment.action ?? ''}
      >
        <VisibleText>{environment.action ?? '–'}</VisibleText>
      </span>
      {isTaken(environment) ? (
        <Under upTo="sm">
          <HolderCell lease={environment} />
        </Under>
      ) : null}
    </>
  )),
  column('Since', { sort: 'grantedAt', from: 'sm' }, (environment) => {
    const at = isTaken(environment) ? environment.grantedAt : endedAt(environment);
    return at === null ? '–' : <RelativeTime at={at} asOf={environment.asOf} />;
  }),
  column('Remaining', { sort: 'expiresAt', from: 'md' }, (environment) => (
    <Remaining {...environment} />
  )),
  column('Comment', { from: 'lg', isFilling: true }, (environment) => (
    <CommentCell lease={environment} />
  )),
];
