import type { HoldOffView } from '@leasehold/api/contract';
import { List } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { absolute, duration } from '~/lib/format.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { ActDialog } from '~/ui/act-dialog.tsx';

/** Ends the hold-off that the person has seen, and no other: shows what can go wrong, and asks why. */
export function EndHoldOffDialog({
  holdOff,
  datacenter,
  onClose,
}: {
  readonly holdOff: HoldOffView | null;
  readonly datacenter: string;
  readonly onClose: () => void;
}) {
  const end = useApiMutation('holdOff', 'end');
  const close = (): void => {
    end.reset();
    onClose();
  };
  const run = (reason: string | undefined): void => {
    if (holdOff === null || reason === undefined) return;
    end.mutate(
      { reason, epoch: holdOff.epoch },
      {
        onSuccess({ ended, remaining }) {
          notifications.show({ title: datacenter, message: outcomeText(ended, remaining) });
          close();
        },
      },
    );
  };
  return (
    <ActDialog
      isOpen={holdOff !== null}
      onClose={close}
      title="End the hold-off"
      reason="required"
      typed={{ what: 'the datacenter’s name', text: datacenter }}
      actLabel="End the hold-off"
      isDangerous
      act={{ isPending: end.isPending, error: end.error, run }}
    >
      <List spacing={4} size="sm">
        <List.Item>New keys, leases and environments are granted again at once.</List.Item>
        <List.Item>
          The database lost grants. Their holders may still act on them
          {holdOff === null ? '' : ` until ${absolute(holdOff.until)}`}: then two holders, or two
          backends, act at the same time. Only stores that check fencing tokens notice it.
        </List.Item>
        <List.Item>
          End it only if every drone and every service that holds leases was restarted, or is off.
          Otherwise wait. It ends by itself.
        </List.Item>
      </List>
    </ActDialog>
  );
}

function outcomeText(ended: HoldOffView | null, remaining: HoldOffView | null): string {
  if (ended !== null) return `New grants are allowed, ${duration(ended.remainingMs)} early.`;
  return remaining === null
    ? 'New grants were allowed already.'
    : 'That hold-off has ended, and there is another one.';
}
