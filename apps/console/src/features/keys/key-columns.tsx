import type { ColumnDef } from '@tanstack/react-table';
import { Link } from '~/components/link.tsx';
import { Mono } from '~/components/text/mono.tsx';
import { BACKEND_LOOKS, LookBadge, PhaseBadge } from '~/components/text/phase-badge.tsx';
import { RelativeTime } from '~/components/text/relative-time.tsx';
import { Remaining } from '~/components/text/remaining.tsx';
import { isInForce } from '~/features/grants/grant-view.ts';
import type { Outputs } from '~/lib/api.ts';
import { fullName } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import classes from './keys.module.css';

/** A key as it comes over the wire. */
export type KeyItem = Outputs['keys']['list']['items'][number];

export const KEY_COLUMNS: ColumnDef<KeyItem>[] = [
  {
    id: 'name',
    header: 'Key',
    meta: { sort: 'name' },
    cell: ({ row: { original: key } }) => (
      <>
        <Link href={routes.key(key)} title={fullName(key)}>
          <bdi>{key.name}</bdi>
        </Link>
        {key.namespace === '' ? null : <bdi className={classes['under']}>{key.namespace}</bdi>}
      </>
    ),
  },
  {
    id: 'namespace',
    header: 'Namespace',
    meta: { from: 'md' },
    cell: ({ row: { original: key } }) => <bdi title={key.namespace}>{key.namespace || '–'}</bdi>,
  },
  {
    id: 'tag',
    header: 'Tag',
    meta: { from: 'lg' },
    cell: ({ row: { original: key } }) => (key.tag === '' ? '–' : <Mono>{key.tag}</Mono>),
  },
  {
    id: 'phase',
    header: 'Phase',
    cell: ({ row: { original: key } }) => <PhaseBadge phase={key.phase} />,
  },
  {
    id: 'holder',
    header: 'Holder',
    meta: { from: 'sm' },
    cell: ({ row: { original: key } }) => <HolderCell item={key} />,
  },
  {
    id: 'backend',
    header: 'Backend',
    meta: { from: 'md' },
    cell: ({ row: { original: key } }) => <BackendCell item={key} />,
  },
  {
    id: 'remaining',
    header: 'Remaining',
    meta: { sort: 'expiresAt' },
    cell: ({ row: { original: key } }) => <Remaining {...key} />,
  },
  {
    id: 'token',
    header: 'Token',
    meta: { from: 'lg', align: 'end' },
    cell: ({ row: { original: key } }) => <Mono>{key.fencingToken}</Mono>,
  },
  {
    id: 'grantedAt',
    header: 'Granted',
    meta: { sort: 'grantedAt', from: 'lg' },
    cell: ({ row: { original: key } }) => <RelativeTime at={key.grantedAt} asOf={key.asOf} />,
  },
  {
    id: 'datacenter',
    header: 'Datacenter',
    meta: { from: 'lg' },
    cell: ({ row: { original: key } }) => <Mono>{key.datacenter}</Mono>,
  },
];

/** The drone that holds it; of a key that is over, the one that had it last. */
function HolderCell({ item }: { readonly item: KeyItem }) {
  if (!isInForce(item) && item.phase !== 'expiring') {
    return (
      <span className={classes['quiet']} title={`Last held by ${item.holder}`}>
        last <bdi className="mono">{item.holder}</bdi>
      </span>
    );
  }
  if (item.droneId === null) return <Mono title={item.holder}>{item.holder}</Mono>;
  return (
    <Link href={routes.drone(item.droneId)} className="mono">
      {item.droneId}
    </Link>
  );
}

/** What runs for it, and in which state. */
function BackendCell({ item: { backendId, backendStatus } }: { readonly item: KeyItem }) {
  if (backendId === null || backendStatus === null) return '–';
  return (
    <Link href={routes.backend(backendId)} title={backendId} className={classes['backend'] ?? ''}>
      <LookBadge look={BACKEND_LOOKS[backendStatus]} />
    </Link>
  );
}
