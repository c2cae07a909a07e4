import type { Outputs } from '~/lib/api/api.ts';
import { fullName } from '~/lib/format.ts';
import { Link, Mono, VisibleText } from '~/ui/text.tsx';
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

/** A lease or an environment as it comes over the wire. */
export type LeaseItem = Outputs['leases']['list']['items'][number];

/** Whether the lease is held; if not, its row shows the last holder. */
export function isTaken({ phase }: Pick<LeaseItem, 'phase'>): boolean {
  return phase === 'held' || phase === 'expiring';
}

/** When a grant that is over ended; null if it was ended by force: only its events show that. */
export function endedAt({ endReason, releasedAt, expiresAt }: LeaseItem): string | null {
  return releasedAt ?? (endReason === 'expired' ? expiresAt : null);
}
