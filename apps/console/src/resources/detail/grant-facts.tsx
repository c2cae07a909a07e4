import type { ReactNode } from 'react';
import { duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { type GrantFace, holdersToken, isInForce, whyEnded } from '~/resources/grant-view.ts';
import { Facts } from '~/ui/page.tsx';
import { CopyableId, Link, Mono, RelativeTime, VisibleText } from '~/ui/text.tsx';
import type { DetailItem } from './detail-item.ts';

/**
 * Who holds it, since when, with which token and why; of an environment also for what. For what is free, the
 * last holder, and how its grant ended.
 */
export function GrantFacts({
  face,
  item,
}: {
  readonly face: GrantFace;
  readonly item: DetailItem;
}) {
  const { grantedAt, renewedAt, releasedAt, stopsBy, endReason, asOf } = item;
  const isHeld = isInForce(item);
  const { action, comment, ttlMs } = 'ttlMs' in item ? item : NOTHING_SAID;
  const tag = 'tag' in item ? item.tag : '';
  return (
    <Facts
      isFirstWide
      items={{
        [isHeld ? 'Held by' : 'Last held by']: <Holder face={face} item={item} />,
        For: action === null ? null : <Mono>{action}</Mono>,
        Comment: comment === null ? null : <VisibleText>{comment}</VisibleText>,
        'Fencing token': <CopyableId id={holdersToken(item)} label="fencing token" />,
        Granted: <RelativeTime at={grantedAt} asOf={asOf} />,
        Renewed: <RelativeTime at={renewedAt} asOf={asOf} />,
        Released: releasedAt === null ? null : <RelativeTime at={releasedAt} asOf={asOf} />,
        Expired: endReason === 'expired' ? <RelativeTime at={item.expiresAt} asOf={asOf} /> : null,
        'Held back until': stopsBy === null ? null : <RelativeTime at={stopsBy} asOf={asOf} />,
        'Ended because': isHeld ? null : <WhyEnded item={item} />,
        Tag: tag === '' ? null : <Mono>{tag}</Mono>,
        TTL: ttlMs === null ? null : duration(ttlMs),
        Datacenter: <Home face={face} item={item} />,
        'Lease id': <CopyableId id={item.leaseId} label="lease id" isShort />,
      }}
    />
  );
}

function WhyEnded({ item }: { readonly item: DetailItem }) {
  const hasFailed = 'backendEnd' in item && item.backendEnd?.hasFailed === true;
  return <span data-bad={hasFailed || undefined}>{whyEnded(item)}</span>;
}

const NOTHING_SAID = { action: null, comment: null, ttlMs: null };

interface Of {
  readonly face: GrantFace;
  readonly item: DetailItem;
}

/** A key is held by a drone, which has a page; of other holders there is a list of what they hold. */
function Holder({ face, item }: Of): ReactNode {
  const { holder, datacenter } = item;
  if ('droneId' in item) {
    return item.droneId === null ? (
      <Mono>{holder}</Mono>
    ) : (
      <Link href={routes.drone(item.droneId, datacenter)}>
        <Mono>{item.droneId}</Mono>
      </Link>
    );
  }
  const list = face === 'environment' ? routes.environments : routes.leases;
  return (
    <Link href={list({ q: fieldText('holder', holder) })}>
      <Mono>{holder}</Mono>
    </Link>
  );
}

/** Only keys move between datacenters. */
function Home({ face, item: { namespace, name, datacenter } }: Of): ReactNode {
  if (face !== 'key') return <Mono>{datacenter}</Mono>;
  return (
    <Link
      href={routes.reservation([namespace, name])}
      title="Where the key lives and has lived"
      className="mono"
    >
      {datacenter}
    </Link>
  );
}
