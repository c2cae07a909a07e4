'use client';

import { Link } from '~/ui/link.tsx';
import { Facts } from '~/ui/page/facts.tsx';
import { CopyableId } from '~/ui/text/copyable-id.tsx';
import { Mono } from '~/ui/text/mono.tsx';
import { RelativeTime } from '~/ui/text/relative-time.tsx';
import { isInForce } from '~/resources/grant-view.ts';
import { routes } from '~/lib/routes.ts';
import type { KeyItem } from './key-columns.tsx';

/** Who holds a key, since when and with which token; for a free key, the last holder. */
export function KeyFacts({ item }: { readonly item: KeyItem }) {
  const { droneId, holder, grantedAt, renewedAt, releasedAt, stopsBy, asOf } = item;
  const isHeld = isInForce(item);
  const by =
    droneId === null ? (
      <Mono>{holder}</Mono>
    ) : (
      <Link href={routes.drone(droneId, item.datacenter)} className="mono">
        {droneId}
      </Link>
    );
  return (
    <Facts
      items={{
        [isHeld ? 'Held by drone' : 'Last held by']: by,
        'Fencing token': <CopyableId id={item.fencingToken} label="fencing token" />,
        Granted: <RelativeTime at={grantedAt} asOf={asOf} />,
        Renewed: <RelativeTime at={renewedAt} asOf={asOf} />,
        Released: releasedAt === null ? null : <RelativeTime at={releasedAt} asOf={asOf} />,
        'Held back until': stopsBy === null ? null : <RelativeTime at={stopsBy} asOf={asOf} />,
        'Ended by': isHeld ? null : item.endReason,
        Tag: item.tag === '' ? null : <Mono>{item.tag}</Mono>,
        Datacenter: (
          <Link
            href={routes.reservation([item.namespace, item.name])}
            title="Where the key lives, and what it came through"
            className="mono"
          >
            {item.datacenter}
          </Link>
        ),
        'Lease id': <CopyableId id={item.leaseId} label="lease id" isShort />,
      }}
    />
  );
}
