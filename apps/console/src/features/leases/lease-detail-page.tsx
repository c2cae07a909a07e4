'use client';

import { useState } from 'react';
import { count, countText } from '~/lib/format.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at, type ResourceRef, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { GrantDetail } from '~/resources/grant/grant-detail.tsx';
import { whyNotActable } from '~/resources/grant-view.ts';
import { Remaining } from '~/resources/looks.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { CopyableId, Link, RelativeTime, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import { FreezesPanel } from './freezes.tsx';
import { isTaken, type LeaseItem } from './lease-cells.tsx';
import classes from './leases.module.css';

/** One lease or environment: its deadlines, who has it and why, who waits for it, and who had it before. */
export function LeaseDetailPage({
  face,
  resource,
}: {
  readonly face: 'lease' | 'environment';
  readonly resource: ResourceRef;
}) {
  return (
    <GrantDetail
      face={face}
      resource={resource}
      more={(item) => {
        if (face === 'environment') return <FreezesPanel of={item} />;
        return item.pool === null ? null : <PoolPanel lease={item} pool={item.pool} />;
      }}
      missing={
        <EmptyState title={`No such ${face}`}>
          Nobody has acquired {face === 'lease' ? 'a lease' : 'an environment'} of this name, or it
          is in a namespace that you may not see.
        </EmptyState>
      }
    />
  );
}

type Pool = NonNullable<LeaseItem['pool']>;

const HOLDER_HEADS = [
  { text: 'Holder' },
  { text: 'Since' },
  { text: 'Remaining' },
  { text: 'Lease id' },
  { text: 'Acts', align: 'end' },
] as const;

const MODE_WORDS = { permit: '', shared: 'shared', exclusive: 'alone' } as const;

/** As many as an answer about one lease names. */
const HOLDERS_SHOWN_MAX = 100;
/** Renewals have no events. */
const EVERY_MS = 1_500;

/** Who holds a lease that several may hold at once, how much of it is held, and the end of one of these grants. */
function PoolPanel({ lease, pool }: { readonly lease: LeaseItem; readonly pool: Pool }) {
  const { namespace, name, datacenter } = lease;
  const of = { namespace, name, includeChildren: false, ...at(datacenter) };
  const input = { ...of, limit: HOLDERS_SHOWN_MAX };
  const { data } = useLiveQuery('leases', 'list', input, { everyMs: EVERY_MS });
  const [revoked, setRevoked] = useState<LeaseItem>();
  const [isRevoking, setRevoking] = useState(false);
  const whyNot = useWhyNot('operator');
  const holders = data?.items.filter(isTaken) ?? [];
  if (holders.length === 0) return null;
  const more = pool.used - holders.length;
  return (
    <Panel title="Holders" meta={<span className="dimmed">{poolText(pool)}</span>} isFlush>
      <PlainTable label="Holders of this lease" heads={HOLDER_HEADS}>
        {holders.map((held) => (
          <tr key={held.leaseId}>
            <td>
              <Link href={routes.leases({ q: fieldText('holder', held.holder) })} className="mono">
                <VisibleText>{held.holder}</VisibleText>
              </Link>
              <div className="dimmed">{held.mode === null ? '' : MODE_WORDS[held.mode]}</div>
            </td>
            <td>
              <RelativeTime at={held.grantedAt} asOf={held.asOf} />
            </td>
            <td>
              <Remaining {...held} />
            </td>
            <td>
              <CopyableId id={held.leaseId} label="lease id" isShort />
            </td>
            <td data-align="end">
              <GuardedButton
                variant="default"
                size="xs"
                whyNot={whyNot ?? whyNotActable('lease', held)}
                aria-label={`Revoke ${held.holder}`}
                onClick={() => {
                  setRevoked(held);
                  setRevoking(true);
                }}
              >
                Revoke…
              </GuardedButton>
            </td>
          </tr>
        ))}
      </PlainTable>
      {more > 0 ? <p className={classes['cut']}>and {count(more)} more</p> : null}
      {revoked === undefined ? null : (
        <RevokeDialog
          face="lease"
          grant={revoked}
          isOpen={isRevoking}
          onClose={() => setRevoking(false)}
        />
      )}
    </Panel>
  );
}

/** `2 of 3 permits held, 5 of 10 of all keys`; `4 share it`. */
function poolText({ used, permits, total, holders }: Pool): string {
  if (permits === null) {
    return holders[0]?.mode === 'exclusive' ? 'held alone' : `${count(used)} share it`;
  }
  const ofKey = `${count(used)} of ${countText(permits, 'permit')} held`;
  return total === null
    ? ofKey
    : `${ofKey}, ${count(total.used)} of ${count(total.permits)} of all keys together`;
}

const RevokeDialog = lazyDialog('isOpen', () =>
  import('~/resources/actions/grant-dialogs.tsx').then((dialogs) => dialogs.RevokeDialog),
);
