import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { query } from '~/lib/api/api.ts';
import { count, countText, duration } from '~/lib/format.ts';
import { at, routes } from '~/lib/routes.ts';
import { fieldText } from '~/lib/search.ts';
import { useWhyNot } from '~/lib/session.tsx';
import type { DialogProps } from '~/ui/act-dialog.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { Panel, PlainTable } from '~/ui/page.tsx';
import { askAgainMs, ErrorState, Notice, UnreachableNotice, useLastWhole } from '~/ui/states.tsx';
import { CopyableId, Link, RelativeTime, VisibleText } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
import type { LeaseItem } from './lease-cells.tsx';

type Pool = NonNullable<LeaseItem['pool']>;

const HOLDER_HEADS = [
  { text: 'Holder' },
  { text: 'Since' },
  { text: 'Remaining' },
  { text: 'Token' },
  { text: 'Acts', align: 'end' },
] as const;

const MODE_WORDS = { permit: '', shared: 'shared', exclusive: 'alone' } as const;

/** Who holds a lease that several may hold at once, how much of it is held, and the end of one of these grants. */
export function PoolPanel({ lease, pool }: { readonly lease: LeaseItem; readonly pool: Pool }) {
  const [asked, setAsked] = useState<{ act: 'revoke' | 'block'; leaseId: string }>();
  const [isOpen, setOpen] = useState(false);
  const ask = (act: 'revoke' | 'block', leaseId: string): void => {
    setAsked({ act, leaseId });
    setOpen(true);
  };
  const whyNot = useWhyNot('operator');
  const { holders, used } = pool;
  if (holders.length === 0) return null;
  const more = used - holders.length;
  return (
    <Panel title="Holders" meta={<span className="dimmed">{poolText(pool)}</span>} isFlush>
      <PlainTable label="Holders of this lease" heads={HOLDER_HEADS}>
        {holders.map(({ leaseId, fencingToken, holder, mode, since, remainingMs }) => (
          <tr key={leaseId}>
            <td>
              <Link href={routes.leases({ q: fieldText('holder', holder) })} className="mono">
                <VisibleText>{holder}</VisibleText>
              </Link>
              <div className="dimmed">
                {MODE_WORDS[mode]} <CopyableId id={leaseId} label="lease id" isShort />
              </div>
            </td>
            <td>
              <RelativeTime at={since} asOf={lease.asOf} />
            </td>
            <td>{duration(remainingMs)}</td>
            <td>
              <CopyableId id={fencingToken} label="fencing token" />
            </td>
            <td data-align="end">
              <GuardedButton
                variant="subtle"
                size="xs"
                whyNot={whyNot}
                aria-label={`Block or allow renewal of ${holder}`}
                onClick={() => ask('block', leaseId)}
              >
                Renewal…
              </GuardedButton>
              <GuardedButton
                variant="default"
                size="xs"
                whyNot={whyNot}
                aria-label={`Revoke ${holder}`}
                onClick={() => ask('revoke', leaseId)}
              >
                Revoke…
              </GuardedButton>
            </td>
          </tr>
        ))}
      </PlainTable>
      {more > 0 ? <p className="small-print">and {count(more)} more</p> : null}
      {asked === undefined ? null : (
        <HolderDialog
          key={`${asked.act} ${asked.leaseId}`}
          lease={lease}
          {...asked}
          isOpen={isOpen}
          onClose={() => setOpen(false)}
        />
      )}
    </Panel>
  );
}

/** The dialog, once it is known what else there is to know about this grant; until then why it is not there. */
function HolderDialog({
  lease: { datacenter },
  act,
  leaseId,
  ...dialog
}: DialogProps & {
  readonly lease: LeaseItem;
  readonly act: 'revoke' | 'block';
  readonly leaseId: string;
}) {
  const read = useQuery({
    ...query('leases', 'list', { leaseId, limit: 1, ...at(datacenter) }),
    enabled: dialog.isOpen,
    refetchInterval: ({ state: { data } }) => askAgainMs(data),
  });
  const known = useLastWhole(read, leaseId);
  if (known === undefined) {
    return (
      dialog.isOpen &&
      (read.data === undefined ? (
        <ErrorState read={read} what="this grant" />
      ) : (
        <UnreachableNotice unreachable={read.data.unreachable} />
      ))
    );
  }
  const [grant] = known.items;
  if (grant === undefined) {
    return dialog.isOpen && <Notice tone="info">This grant has ended meanwhile.</Notice>;
  }
  const Dialog = act === 'revoke' ? RevokeDialog : BlockDialog;
  return <Dialog face="lease" grant={grant} {...dialog} />;
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

const BlockDialog = lazyDialog('isOpen', () =>
  import('~/resources/actions/grant-dialogs.tsx').then((dialogs) => dialogs.BlockDialog),
);
