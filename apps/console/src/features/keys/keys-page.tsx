'use client';

import { Code } from '@mantine/core';
import type { Outputs } from '~/lib/api/api.ts';
import { fullName } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { routes } from '~/lib/routes.ts';
import { withField } from '~/lib/search.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { failingLook, isFailure, keyBackendLook } from '~/resources/backend-looks.ts';
import { isInForce } from '~/resources/grant-view.ts';
import { GrantList, type GrantListState, useGrantListState } from '~/resources/list/grant-list.tsx';
import { KEY_FIELDS, keyListInput } from '~/resources/list/grant-search.ts';
import { ExportMenu, LongOver, useTotal } from '~/resources/list/list-parts.tsx';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { FilterMenu } from '~/ui/filters.tsx';
import { PageHeader } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { type Column, column } from '~/ui/table/column.ts';
import { Link, LookBadge, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import classes from './keys.module.css';

/** Every key: who holds it, for how long, with which token. */
export function KeysPage() {
  const list = useGrantListState(KEY_FIELDS, keyListInput);
  const read = useLiveQuery('keys', 'list', list.input, list.options);
  const total = useTotal('keys', list.input, read);
  return (
    <>
      <PageHeader
        title="Keys"
        actions={<ExportMenu list="keys" input={list.input} isDisabled={!list.options.enabled} />}
      />
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
  const isAllowed = useWhyNot('viewer', { isOfAll: true }) === undefined;
  const drones = useLiveQuery(
    'drones',
    'list',
    { limit: 100, ...filter.input },
    { everyMs: 30_000, isOnTimer: true, enabled: isAllowed },
  );
  if (!isAllowed) return null;
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

/** A key as it comes over the wire. */
type KeyItem = Outputs['keys']['list']['items'][number];

/** Their order is that of the rows: by namespace, and in it by name. */
const KEY_COLUMNS: Column<KeyItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (key) => (
    <span title={key.namespace}>
      <VisibleText>{key.namespace || '–'}</VisibleText>
    </span>
  )),
  column('Key', { sort: 'name' }, (key) => (
    <span className={classes['key']}>
      {key.namespace === '' ? null : (
        <Under upTo="md">
          <VisibleText>{key.namespace}</VisibleText>
        </Under>
      )}
      <Link href={routes.key(key)} title={fullName(key)}>
        <VisibleText>{key.name}</VisibleText>
      </Link>
      <Under upTo="sm">
        <HolderCell item={key} />
      </Under>
    </span>
  )),
  column('Tag', { from: 'lg' }, (key) => (key.tag === '' ? '–' : <Mono>{key.tag}</Mono>)),
  column('Phase', {}, (key) => <PhaseBadge phase={key.phase} />),
  column('Holder', { from: 'sm' }, (key) => <HolderCell item={key} />),
  column('Remaining', { sort: 'expiresAt' }, (key) => <Remaining {...key} />),
  column('Token', { from: 'lg', align: 'end' }, (key) => <Mono>{key.fencingToken}</Mono>),
  column('Granted', { sort: 'grantedAt', from: 'lg' }, (key) => (
    <RelativeTime at={key.grantedAt} asOf={key.asOf} />
  )),
  column('Datacenter', { from: 'lg' }, (key) => <Mono>{key.datacenter}</Mono>),
];

/** The drone that holds a key and its backend's state; for a key that is over, the last holder, and how it failed. */
function HolderCell({ item }: { readonly item: KeyItem }) {
  const { droneId, holder, backendStatus, backendEnd, datacenter, failing } = item;
  const isOver = !isInForce(item) && item.phase !== 'expiring';
  // Only a move has made this row: nobody has held the key there.
  if (isOver && droneId === null) return '–';
  if (isOver && (backendStatus === null || backendStatus === 'terminated')) {
    return (
      <span className={classes['holder']} data-holder title={`Last held by ${holder}`}>
        <span className="dimmed">
          last <Mono>{holder}</Mono>
        </span>
        {failing === null ? (
          isFailure(backendEnd) && <BackendState item={item} />
        ) : (
          <Link href={routes.backend(failing.backendId, datacenter)}>
            <LookBadge look={failingLook(failing, item.asOf)} isPlain />
          </Link>
        )}
      </span>
    );
  }
  return (
    <span className={classes['holder']} data-holder>
      {droneId === null ? (
        <Mono title={holder}>{holder}</Mono>
      ) : (
        <Link href={routes.drone(droneId, datacenter)} className="mono">
          {droneId}
        </Link>
      )}
      <BackendState item={item} />
    </span>
  );
}

function BackendState({ item }: { readonly item: KeyItem }) {
  const { backendId, backendEnd, datacenter } = item;
  const look = keyBackendLook(item);
  if (backendId === null || look === undefined) return null;
  return (
    <Link href={routes.backend(backendId, datacenter)} title={`Backend ${backendId}`}>
      <LookBadge look={look} isPlain={backendEnd?.hasFailed !== true} />
    </Link>
  );
}
