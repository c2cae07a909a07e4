import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { ActFailure, Notice } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';
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
