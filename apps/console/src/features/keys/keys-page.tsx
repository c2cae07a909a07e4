'use client';

import { Code } from '@mantine/core';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { withField } from '~/lib/search.ts';
import { GrantList, type GrantListState, useGrantListState } from '~/resources/list/grant-list.tsx';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { FilterMenu } from '~/ui/filters.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { KEY_COLUMNS } from './key-columns.tsx';
import { KEY_FIELDS, keyListInput } from './key-search.ts';
import classes from './keys.module.css';

/** Every key: who holds it, for how long, with which token. */
export function KeysPage() {
  const list = useGrantListState(KEY_FIELDS, keyListInput);
  const read = useLiveQuery('keys', 'list', list.input, list.options);
  const total = useTotal('keys', list.input, read);
  return (
    <>
      <PageHeader title="Keys" actions={<ExportMenu list="keys" input={list.input} />} />
      <GrantList
        face="key"
        list={list}
        read={read}
        total={total}
        columns={KEY_COLUMNS}
        placeholder="Part of a name, or holder: phase: tag: drone: namespace:"
        filters={<DroneFilter list={list} />}
      >
        <EmptyState title="No keys" action={<LongOver what="keys" state={list.state} />}>
          No key was held in the last hour. Connect to one from a shell:
          <Code block className={classes['command'] ?? ''}>
            <span className={classes['option']}>npx leasehold connect room-1</span>{' '}
            <span className={classes['option']}>--namespace rooms</span>{' '}
            <span className={classes['option']}>--program room</span>
          </Code>
        </EmptyState>
      </GrantList>
    </>
  );
}

/** The search's `drone:`, as a menu. */
function DroneFilter({ list: { state, filter } }: { readonly list: GrantListState }) {
  const drones = useLiveQuery(
    'drones',
    'list',
    { limit: 100, ...filter.input },
    { everyMs: 30_000, isOnTimer: true },
  );
  return (
    <FilterMenu
      label="Drone"
      value={state.search.fields['drone']}
      options={(drones.data?.items ?? []).map(({ droneId }) => ({
        value: droneId,
        label: droneId,
      }))}
      onChange={(drone) => state.setQ(withField(state.q, 'drone', drone))}
    />
  );
}
