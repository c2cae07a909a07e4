import { Link } from '~/ui/link.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { CopyableId } from '~/ui/text/copyable-id.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { isTaken } from './lease-columns.tsx';
import type { LeaseItem } from './lease-item.ts';
import { fieldText } from '~/lib/search/search-text.ts';

/** Who holds a lease and why; for a free one, the last holder. */
export function LeaseFacts({ lease }: { readonly lease: LeaseItem }) {
  const isHeld = isTaken(lease);
  return (
    <Facts
      isFirstWide
      items={[
        [
          isHeld ? 'Held by' : 'Last held by',
          <Link key="holder" href={routes.leases({ q: fieldText('holder', lease.holder) })}>
            <bdi className="mono">{lease.holder}</bdi>
          </Link>,
        ],
        ['Comment', lease.comment === null ? null : <bdi key="comment">{lease.comment}</bdi>],
        [
          'Namespace',
          lease.namespace === '' ? null : (
            <Link
              key="namespace"
              href={routes.leases({ q: fieldText('namespace', lease.namespace) })}
            >
              <bdi>{lease.namespace}</bdi>
            </Link>
          ),
        ],
        ...grantFacts(lease),
      ]}
    />
  );
}

/** The facts of a grant that leases and environments have in common. */
export function grantFacts(lease: LeaseItem): (readonly [name: string, value: React.ReactNode])[] {
  return [
    ['Granted', <RelativeTime key="granted" at={lease.grantedAt} asOf={lease.asOf} />],
    ['Last renewed', <RelativeTime key="renewed" at={lease.renewedAt} asOf={lease.asOf} />],
    ['TTL', duration(lease.ttlMs)],
    ['Fencing token', <CopyableId key="token" id={lease.fencingToken} label="fencing token" />],
    ['Lease id', <CopyableId key="id" id={lease.leaseId} label="lease id" isShort />],
    ['Datacenter', lease.datacenter],
  ];
}
