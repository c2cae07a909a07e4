import { count, fullName } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { PhaseBadge, Remaining } from '~/resources/looks.tsx';
import { column, type Column } from '~/ui/table/column.ts';
import { Link, Mono, RelativeTime, Under, VisibleText } from '~/ui/text.tsx';
import { isTaken, type LeaseItem } from './lease-item.ts';
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
      {resource.namespace === '' ? null : (
        <span className={classes['under']}>
          <VisibleText>{resource.namespace}</VisibleText>
        </span>
      )}
      <Link href={href} title={fullName(resource)} className={classes['name'] ?? ''}>
        <VisibleText>{resource.name}</VisibleText>
      </Link>
    </>
  );
}

/** The namespace: before the name, because rows are in the order of both. */
export function NamespaceCell({
  resource: { namespace },
}: {
  readonly resource: { readonly namespace: string };
}) {
  return (
    <span title={namespace}>
      <VisibleText>{namespace || '–'}</VisibleText>
    </span>
  );
}

/** The holder; for a free lease the last holder, marked as such. */
export function HolderCell({ lease }: { readonly lease: LeaseItem }) {
  if (isTaken(lease)) {
    return (
      <span className={`${classes['holder'] ?? ''} mono`} data-holder title={lease.holder}>
        <VisibleText>{lease.holder}</VisibleText>
      </span>
    );
  }
  return (
    <span
      className={`${classes['holder'] ?? ''} dimmed`}
      data-holder
      title={`Last held by ${lease.holder}`}
    >
      last <Mono>{lease.holder}</Mono>
    </span>
  );
}

/** The holder's comment; pale for a free lease. */
export function CommentCell({ lease }: { readonly lease: LeaseItem }) {
  const tone = isTaken(lease) ? '' : 'dimmed';
  return (
    <span className={`${classes['comment'] ?? ''} ${tone}`} dir="auto" title={lease.comment ?? ''}>
      <VisibleText>{lease.comment ?? '–'}</VisibleText>
    </span>
  );
}

export const LEASE_COLUMNS: Column<LeaseItem>[] = [
  column('Namespace', { sort: 'name', from: 'md' }, (lease) => <NamespaceCell resource={lease} />),
  column('Lease', { sort: 'name' }, (lease) => (
    <>
      <NameCell resource={lease} href={routes.lease(lease)} />
      <Under upTo="sm">
        <HolderCell lease={lease} />
      </Under>
    </>
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
  column('Token', { from: 'xl', align: 'end' }, (lease) => <Mono>{lease.fencingToken}</Mono>),
  column('Granted', { sort: 'grantedAt', from: 'lg' }, (lease) => (
    <RelativeTime at={lease.grantedAt} asOf={lease.asOf} />
  )),
];
