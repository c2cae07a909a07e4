'use client';

import { duration } from '~/lib/format.ts';
import type { ResourceRef } from '~/lib/routes.ts';
import { GrantDetail } from '~/resources/grant/grant-detail.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { EmptyState } from '~/ui/states.tsx';
import { CopyableId, Mono, RelativeTime } from '~/ui/text.tsx';
import type { LeaseItem } from './lease-cells.tsx';

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
      holders={({ pool, asOf }) => (pool === null ? null : <PoolPanel pool={pool} asOf={asOf} />)}
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
  { text: 'Mode' },
  { text: 'Since' },
  { text: 'Remaining', align: 'end' },
  { text: 'Lease id' },
] as const;

const MODE_WORDS = { permit: 'permit', shared: 'shared', exclusive: 'alone' } as const;

/** Who holds a lease that several may hold at once, and how much of it is held. */
function PoolPanel({ pool, asOf }: { readonly pool: Pool; readonly asOf: string }) {
  const { holders, used, permits, total } = pool;
  const ofKey =
    permits === null ? `${String(used)} held` : `${String(used)}/${String(permits)} held`;
  const ofAll =
    total === null ? '' : `, ${String(total.used)}/${String(total.permits)} of all keys`;
  return (
    <Panel title="Holders" meta={<span className="dimmed">{`${ofKey}${ofAll}`}</span>} isFlush>
      <PlainTable label="Holders of this lease" heads={HOLDER_HEADS}>
        {holders.map(({ leaseId, holder, mode, since, remainingMs }) => (
          <tr key={leaseId}>
            <td>
              <Mono>{holder}</Mono>
            </td>
            <td>{MODE_WORDS[mode]}</td>
            <td>
              <RelativeTime at={since} asOf={asOf} />
            </td>
            <td data-align="end">{duration(remainingMs)}</td>
            <td>
              <CopyableId id={leaseId} label="lease id" isShort />
            </td>
          </tr>
        ))}
      </PlainTable>
    </Panel>
  );
}
