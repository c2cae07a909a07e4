import { isTaken, type LeaseItem } from './lease-item.ts';
import { column, type Column } from '~/ui/table/column.ts';
import { Link } from '~/ui/link.tsx';
import { Mono, RelativeTime } from '~/ui/text/text.tsx';
import { PhaseBadge } from '~/resources/looks.tsx';
import { Remaining } from '~/resources/remaining.tsx';
import { count, fullName } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import classes from './leases.module.css';

/** A name in its own text direction; with its namespace, where no column shows it. */
export function NameCell({
  resource,
  href,
}: {
  readonly resource: { readonly namespace: string; readonly name: string };
  readonly href: string;
}) {
  return (
    <>
      <Link href={href} title={fullName(resource)} dir="auto" className={classes['name'] ?? ''}>
        {resource.name}
      </Link>
      {resource.namespace === '' ? null : (
        <bdi className={classes['under']}>{resource.namespace}</bdi>
      )}
    </>
  );
}

/** The holder; for a free lease the last holder, marked as such. */
export function HolderCell({ lease }: { readonly lease: LeaseItem }) {
  if (isTaken(lease)) {
    return (
      <span className={`${classes['holder'] ?? ''} mono`} dir="auto" title={lease.holder}>
        {lease.holder}
      </span>
    );
  }
  return (
    <span className={`${classes['holder'] ?? ''} dimmed`} title={`Last held by ${lease.holder}`}>
      last <bdi className="mono">{lease.holder}</bdi>
    </span>
  );
}

/** The holder's comment; pale for a free lease. */
export function CommentCell({ lease }: { readonly lease: LeaseItem }) {
  const tone = isTaken(lease) ? '' : 'dimmed';
  return (
    <span className={`${classes['comment'] ?? ''} ${tone}`} dir="auto" title={lease.comment ?? ''}>
      {lease.comment ?? '–'}
    </span>
  );
}

export const LEASE_COLUMNS: Column<LeaseItem>[] = [
  column('Lease', { sort: 'name' }, (lease) => (
    <NameCell resource={lease} href={routes.lease(lease)} />
  )),
  column('Namespace', { from: 'md' }, (lease) => (
    <bdi title={lease.namespace}>{lease.namespace || '–'}</bdi>
  )),
  column('Phase', {}, (lease) => <PhaseBadge phase={lease.phase} />),
  column('Holder', { from: 'sm' }, (lease) => <HolderCell lease={lease} />),
  column('Comment', { from: 'lg', isFilling: true }, (lease) => <CommentCell lease={lease} />),
  column('Remaining', { sort: 'expiresAt' }, (lease) => <Remaining {...lease} />),
  column('Waiting', { from: 'sm', align: 'end' }, (lease) => (
    <span className={lease.waiters > 0 ? classes['waiting'] : 'dimmed'}>
      {count(lease.waiters)}
    </span>
  )),
  column('Token', { from: 'lg', align: 'end' }, (lease) => <Mono>{lease.fencingToken}</Mono>),
  column('Granted', { sort: 'grantedAt', from: 'lg' }, (lease) => (
    <RelativeTime at={lease.grantedAt} asOf={lease.asOf} />
  )),
];
