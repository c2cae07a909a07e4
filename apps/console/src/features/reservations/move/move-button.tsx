import { IconRoute } from '@tabler/icons-react';
import { useState } from 'react';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { GuardedButton } from '~/ui/guarded-button.tsx';
import { useWhyNot } from '~/lib/session/session.tsx';
import { useDatacenters } from '~/lib/datacenters/use-datacenters.ts';
import type { MoveDialogProps } from './move-dialog.tsx';
import type { ReservationDetail } from '../reservation-item.ts';

const MoveDialog = lazyDialog('isOpen', () =>
  import('./move-dialog.tsx').then((module) => module.MoveDialog),
);

/** Moves the key, or says why it cannot be moved now. */
export function MoveButton({ reservation, grant }: Pick<MoveDialogProps, 'reservation' | 'grant'>) {
  const [isOpen, setOpen] = useState(false);
  const roleWhyNot = useWhyNot('operator');
  const { isSeveral } = useDatacenters();
  return (
    <>
      <GuardedButton
        whyNot={roleWhyNot ?? whyNotMovable(reservation, isSeveral)}
        leftSection={<IconRoute size={14} />}
        onClick={() => setOpen(true)}
      >
        Move
      </GuardedButton>
      <MoveDialog
        reservation={reservation}
        grant={grant}
        isOpen={isOpen}
        onClose={() => setOpen(false)}
      />
    </>
  );
}

function whyNotMovable(
  { links, datacenter }: ReservationDetail,
  isSeveral: boolean,
): string | undefined {
  if (!isSeveral) return 'There is one datacenter: see LEASEHOLD_PEERS.';
  return links.at(-1)?.state === 'unreachable'
    ? `${datacenter} cannot be reached: the key can only leave it by its own hand.`
    : undefined;
}
