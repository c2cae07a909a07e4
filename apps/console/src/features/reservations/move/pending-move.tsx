import { GuardedButton } from '~/ui/guarded-button.tsx';
import { ActFailure } from '~/ui/dialogs/act-failure.tsx';
import { Notice } from '~/ui/states/notice.tsx';
import { at } from '~/lib/datacenters/here.ts';
import { useApiMutation } from '~/lib/api/use-api-mutation.ts';
import { useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useWhyNot } from '~/lib/session/session.tsx';
import type { ReservationDetail } from '../reservation-item.ts';
import { failureText } from './move-progress.ts';

const EVERY_MS = 1_500;

/** The requested move, and the way to cancel it; nothing without one. */
export function PendingMove({ reservation }: { readonly reservation: ReservationDetail }) {
  const { key, reservationId, datacenter, links } = reservation;
  const ref = { key: [...key], reservationId, ...at(datacenter) };
  const whyNot = useWhyNot('operator');
  const cancel = useApiMutation('reservations', 'cancelMove');
  const { data: move } = useLiveQuery('reservations', 'pendingMove', ref, {
    everyMs: EVERY_MS,
    enabled: links.at(-1)?.state === 'active',
  });
  if (move === undefined || move === null) return null;
  const { toDatacenter, askedBy, heldBy, failure } = move;
  if (failure !== null) {
    return (
      <Notice tone="info">
        {askedBy} asked for it to be moved to {toDatacenter}. {failureText(failure)}
      </Notice>
    );
  }
  return (
    <Notice tone="info">
      {askedBy} asked for it to be moved to {toDatacenter}.{' '}
      {heldBy === null ? 'It moves now.' : `It moves when ${heldBy.holder} no longer holds it.`}{' '}
      <GuardedButton
        size="compact-xs"
        whyNot={whyNot}
        loading={cancel.isPending}
        onClick={() => cancel.mutate(ref)}
      >
        Cancel the move
      </GuardedButton>
      <ActFailure error={cancel.error} />
    </Notice>
  );
}
