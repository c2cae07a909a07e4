import { Link } from '~/ui/link.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { CopyableId, Mono, RelativeTime } from '~/ui/text/text.tsx';
import { duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { holdersToken } from '~/resources/grant-view.ts';
import { endedAt, isTaken, type LeaseItem } from './lease-item.ts';
import { fieldText } from '~/lib/search/search-text.ts';

/**
 * Who holds a lease and why; of an environment also for what. For a free one, who had it last, and of an
 * environment until when.
 */
export function LeaseFacts({
  face,
  lease,
}: {
  readonly face: 'lease' | 'environment';
  readonly lease: LeaseItem;
}) {
  const isHeld = isTaken(lease);
  const isEnvironment = face === 'environment';
  const list = isEnvironment ? routes.environments : routes.leases;
  const { action, comment, namespace, holder, asOf } = lease;
  return (
    <Facts
      isFirstWide
      items={{
        [isHeld ? 'Held by' : 'Last held by']: (
          <Link href={list({ q: fieldText('holder', holder) })}>
            <Mono>{holder}</Mono>
          </Link>
        ),
        For: isEnvironment && action !== null ? <bdi className="mono">{action}</bdi> : null,
        Comment: comment === null ? null : <bdi>{comment}</bdi>,
        Until: isEnvironment && !isHeld ? <Until lease={lease} /> : null,
        Namespace:
          namespace === '' ? null : (
            <Link href={list({ q: fieldText('namespace', namespace) })}>
              <bdi>{namespace}</bdi>
            </Link>
          ),
        Granted: <RelativeTime at={lease.grantedAt} asOf={asOf} />,
        'Last renewed': <RelativeTime at={lease.renewedAt} asOf={asOf} />,
        TTL: duration(lease.ttlMs),
        'Fencing token': <CopyableId id={holdersToken(lease)} label="fencing token" />,
        'Lease id': <CopyableId id={lease.leaseId} label="lease id" isShort />,
        Datacenter: lease.datacenter,
      }}
    />
  );
}

function Until({ lease }: { readonly lease: LeaseItem }) {
  const at = endedAt(lease);
  if (at === null) return 'it was revoked by force';
  return (
    <>
      <RelativeTime at={at} asOf={lease.asOf} />
      {lease.endReason === 'released' ? ', released' : ', expired'}
    </>
  );
}
