'use client';

import { notifications } from '@mantine/notifications';
import { ActDialog } from '~/ui/dialogs/act-dialog.tsx';
import { counted } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useApiMutation } from '~/lib/api/use-api-mutation.ts';
import type { Drone, DroneAct } from './drone-texts.ts';
import { DrainConsequence, LostConsequence, UndrainConsequence } from './consequences.tsx';

export interface DroneActRequest {
  readonly act: DroneAct;
  /** The drone as it was when the dialog was opened. */
  readonly drone: Drone;
}

const TITLES = { drain: 'Drain', undrain: 'Undrain', markLost: 'Mark lost' } as const;
const CONSEQUENCES = {
  drain: DrainConsequence,
  undrain: UndrainConsequence,
  markLost: LostConsequence,
} as const;

/** Drains or undrains a drone, or marks it lost: shows what follows, and asks why. */
export function DroneActDialog({
  request,
  onClose,
}: {
  readonly request: DroneActRequest | null;
  readonly onClose: () => void;
}) {
  const drain = useApiMutation('drones', 'drain');
  const undrain = useApiMutation('drones', 'undrain');
  const markLost = useApiMutation('drones', 'markLost');
  if (request === null) return null;
  const { act, drone } = request;
  const { droneId } = drone;
  const mutation = { drain, undrain, markLost }[act];
  const Consequence = CONSEQUENCES[act];

  const done = (message: string): void => {
    notifications.show({ title: droneId, message });
    close();
  };
  const close = (): void => {
    mutation.reset();
    onClose();
  };
  const run = (reason: string | undefined): void => {
    const input = { droneId, ...at(drone.datacenter), ...(reason === undefined ? {} : { reason }) };
    if (act === 'drain') {
      drain.mutate(input, {
        onSuccess: ({ changed, backends }) => {
          const left = `${counted(backends.length, 'backend')} left on it.`;
          done(changed ? `Draining. ${left}` : `Was being drained already. ${left}`);
        },
      });
    } else if (act === 'undrain') {
      undrain.mutate(input, {
        onSuccess: ({ changed }) =>
          done(changed ? 'Takes new backends again.' : 'Was not being drained.'),
      });
    } else {
      markLost.mutate(input, {
        onSuccess: ({ renewalsBlockedCount }) =>
          done(`Marked lost. Renewal of ${counted(renewalsBlockedCount, 'key')} is blocked.`),
      });
    }
  };
  return (
    <ActDialog
      isOpen
      onClose={close}
      title={`${TITLES[act]}: ${droneId}`}
      reason={act === 'undrain' ? 'optional' : 'required'}
      typed={act === 'markLost' ? { what: 'the drone’s id', text: droneId } : undefined}
      actLabel={TITLES[act]}
      isDangerous={act === 'markLost'}
      act={{ isPending: mutation.isPending, error: mutation.error, run }}
    >
      <Consequence drone={drone} />
    </ActDialog>
  );
}
