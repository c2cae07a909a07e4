import { Select, Stack } from '@mantine/core';
import { useState } from 'react';
import type { Outputs } from '~/lib/api/api.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { databaseClock } from '~/lib/live/database-clock.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { ConsequenceList } from '~/resources/actions/act-parts.tsx';
import { isInForce } from '~/resources/grant-view.ts';
import { keyLabel } from '~/resources/names.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { reservationFailure } from '../reservation-failure.ts';
import type { ReservationDetail } from '../reservation-item.ts';
import { followedMoves } from './followed-moves.ts';
import { moveConsequences } from './move-consequences.ts';

type Grant = Outputs['keys']['get'];

export interface MoveDialogProps extends DialogProps {
  readonly reservation: ReservationDetail;
  /** The key's present grant, or null; undefined while it is not known. */
  readonly grant: Grant | undefined;
}

/**
 * Asks for a key to be moved to another datacenter. A held key does not move: its grant is revoked, and
 * the controllers move the key when it is free. A banner follows that (`move-banner.tsx`).
 */
export function MoveDialog(props: MoveDialogProps) {
  const { isOpen, onClose } = props;
  // The state when the dialog was opened: no later holder's grant is revoked for this move.
  const [about, setAbout] = useState(props);
  const [wasOpen, setWasOpen] = useState(isOpen);
  const [toDatacenter, setToDatacenter] = useState<string | null>(null);
  const move = useMove(about, onClose);
  if (isOpen !== wasOpen) {
    setWasOpen(isOpen);
    if (isOpen) {
      setAbout(props);
      setToDatacenter(null);
      move.reset();
    }
  }
  const { reservation, grant } = about;
  const isRevoked = grant !== undefined && grant !== null && isInForce(grant);
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={onClose}
      title={`Move ${keyLabel(reservation.key)}`}
      reason="required"
      actLabel={isRevoked ? 'Revoke, then move' : 'Move'}
      isReady={toDatacenter !== null}
      act={{
        isPending: move.isPending,
        error: reservationFailure(move.error),
        run: (reason) => {
          if (toDatacenter !== null) move.run(toDatacenter, reason ?? '');
        },
      }}
    >
      <Stack gap="sm">
        <TargetSelect
          home={reservation.datacenter}
          value={toDatacenter}
          onChange={setToDatacenter}
        />
        <MoveConsequences about={about} toDatacenter={toDatacenter} />
      </Stack>
    </ActDialog>
  );
}

/**
 * Requests the move, and revokes the grant of a held key. The request comes first: if it is refused,
 * no holder is stopped for nothing.
 */
function useMove({ reservation, grant }: MoveDialogProps, onDone: () => void) {
  const request = useApiMutation('reservations', 'requestMove');
  const revoke = useApiMutation('keys', 'revoke');
  const { key, reservationId, datacenter: fromDatacenter } = reservation;
  const held = grant === undefined || grant === null || isFree(grant) ? null : grant;
  return {
    isPending: request.isPending || revoke.isPending,
    error: request.error ?? revoke.error,
    reset() {
      request.reset();
      revoke.reset();
    },
    run(toDatacenter: string, reason: string): void {
      const follow = (): void => {
        followedMoves.follow({ key, fromId: reservationId, fromDatacenter, toDatacenter });
        onDone();
      };
      const what = { key: [...key], reservationId, toDatacenter, reason };
      request.mutate(
        { ...what, waitsFor: held?.leaseId ?? null, ...at(fromDatacenter) },
        {
          onSuccess: () => {
            if (held === null || !isInForce(held)) {
              follow();
              return;
            }
            const { leaseId, datacenter } = held;
            revoke.mutate(
              { leaseId, mode: 'graceful', reason, ...at(datacenter) },
              { onSuccess: follow },
            );
          },
        },
      );
    },
  };
}

function isFree({ phase }: { readonly phase: string }): boolean {
  return phase === 'free' || phase === 'expired';
}

function TargetSelect({
  home,
  value,
  onChange,
}: {
  readonly home: string;
  readonly value: string | null;
  readonly onChange: (datacenter: string | null) => void;
}) {
  const { items } = useDatacenters();
  return (
    <Select
      label="To datacenter"
      description={`Its home is ${home} now.`}
      placeholder="Choose a datacenter"
      required
      value={value}
      data={items
        .filter(({ name }) => name !== home)
        .map(({ name, isReachable }) => ({
          value: name,
          label: isReachable ? name : `${name}, cannot be reached`,
          disabled: !isReachable,
        }))}
      onChange={onChange}
    />
  );
}

/** Updated when another datacenter is chosen, and as time passes. */
function MoveConsequences({
  about: { reservation, grant },
  toDatacenter,
}: {
  readonly about: MoveDialogProps;
  readonly toDatacenter: string | null;
}) {
  const nowMs = useDatabaseNow() ?? databaseClock.nowMs() ?? 0;
  const move = { from: reservation.datacenter, to: toDatacenter, grant };
  return <ConsequenceList isInOrder consequences={moveConsequences(move, nowMs)} />;
}
