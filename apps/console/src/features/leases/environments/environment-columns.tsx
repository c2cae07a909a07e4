import type { LeaseItem } from '../lease-item.ts';
import type { ColumnDef } from '@tanstack/react-table';
import { Under } from '~/ui/text/under.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { Remaining } from '~/resources/remaining.tsx';
import { routes } from '~/lib/routes.ts';
import { CommentCell, HolderCell, NameCell, isTaken } from '../lease-columns.tsx';
import { endedAt } from './last-use.ts';
import classes from '../leases.module.css';

/** The last holder and the last action of a free environment are pale. */
const tone = (environment: LeaseItem): string =>
  isTaken(environment) ? '' : (classes['quiet'] ?? '');

export const ENVIRONMENT_COLUMNS: ColumnDef<LeaseItem>[] = [
  {
    id: 'name',
    header: 'Environment',
    meta: { sort: 'name' },
    cell: ({ row: { original: environment } }) => (
      <NameCell resource={environment} href={routes.environment(environment)} />
    ),
  },
  {
    id: 'namespace',
    header: 'Namespace',
    meta: { from: 'md' },
    cell: ({ row: { original: environment } }) => (
      <bdi title={environment.namespace}>{environment.namespace || '–'}</bdi>
    ),
  },
  {
    id: 'phase',
    header: 'State',
    cell: ({ row: { original: environment } }) => <PhaseBadge phase={environment.phase} />,
  },
  {
    id: 'holder',
    header: 'By whom',
    meta: { from: 'sm' },
    cell: ({ row: { original: environment } }) => <HolderCell lease={environment} />,
  },
  {
    id: 'action',
    header: 'For',
    cell: ({ row: { original: environment } }) => (
      <>
        <span
          className={`${classes['action'] ?? ''} mono ${tone(environment)}`}
          dir="auto"
          title={environment.action ?? ''}
        >
          {environment.action ?? '–'}
        </span>
        {isTaken(environment) ? (
          <Under upTo="sm">
            <HolderCell lease={environment} />
          </Under>
        ) : null}
      </>
    ),
  },
  {
    id: 'since',
    header: 'Since',
    meta: { sort: 'grantedAt', from: 'sm' },
    cell: ({ row: { original: environment } }) => {
      const at = isTaken(environment) ? environment.grantedAt : endedAt(environment);
      return at === null ? '–' : <RelativeTime at={at} asOf={environment.asOf} />;
    },
  },
  {
    id: 'remaining',
    header: 'Remaining',
    meta: { sort: 'expiresAt', from: 'md' },
    cell: ({ row: { original: environment } }) => <Remaining {...environment} />,
  },
  {
    id: 'comment',
    header: 'Comment',
    meta: { from: 'lg', isFilling: true },
    cell: ({ row: { original: environment } }) => <CommentCell lease={environment} />,
  },
];
