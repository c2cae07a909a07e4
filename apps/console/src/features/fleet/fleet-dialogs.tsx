import { List, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { resourceText } from '@leasehold/keys-core';
import { query } from '~/lib/api/api.ts';
import { countText, duration } from '~/lib/format.ts';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { ModeChoice } from '~/resources/actions/act-parts.tsx';
import type { RevokeMode } from '~/resources/actions/revoke-consequences.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { Mono } from '~/ui/text.tsx';
import { type Backend, stoppedText, terminateProblem } from './backends.tsx';
import { actProblem, type Drone, type DroneAct, isFinal, typedFor } from './drones.tsx';

export interface DroneActRequest {
  readonly act: DroneAct;
  /** The drone as it was when the dialog was opened. */
  readonly drone: Drone;
}

const DRONE_EVERY_MS = 2_000;

const TITLES: Record<DroneAct, string> = {
  drain: 'Drain',
  undrain: 'Undrain',
  stop: 'Stop backends',
  markLost: 'Mark lost',
  remove: 'Remove',
};
const CONSEQUENCES = {
  drain: DrainConsequence,
  undrain: UndrainConsequence,
  stop: StopConsequence,
  markLost: LostConsequence,
  remove: RemoveConsequence,
} as const;

/** Acts on a drone: shows what follows, and asks why. */
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
  const remove = useApiMutation('drones', 'remove');
  // The page behind a dialog is paused: only this looks what others do to the drone meanwhile.
  const read = useQuery({
    ...query('drones', 'get', {
      droneId: request?.drone.droneId ?? '',
      ...at(request?.drone.datacenter),
    }),
    enabled: request !== null,
    refetchInterval: DRONE_EVERY_MS,
  });
  if (request === null) return null;
  const { act, drone: opened } = request;
  const drone = read.data ?? opened;
  const { droneId } = drone;
  const mutation = { drain, undrain, stop: drain, markLost, remove }[act];
  const Consequence = CONSEQUENCES[act];
  const overtaken = mutation.isIdle ? actProblem(act, drone) : undefined;

  const done = (message: string): void => {
    notifications.show({ title: droneId, message });
    close();
  };
  const close = (): void => {
    mutation.reset();
    onClose();
  };
  const run = (reason: string | undefined): void => {
    const input = { droneId, ...at(drone.datacenter), reason };
    if (act === 'drain') {
      drain.mutate(input, {
        onSuccess: ({ changed, backends }) => {
          const left = `${countText(backends.length, 'backend')} left on it.`;
          done(changed ? `Draining. ${left}` : `It was draining already. ${left}`);
        },
      });
    } else if (act === 'stop') {
      drain.mutate(
        { ...input, stop: true },
        {
          onSuccess: ({ stoppingCount }) =>
            done(`Draining. ${countText(stoppingCount, 'backend')} asked to stop.`),
        },
      );
    } else if (act === 'remove') {
      remove.mutate(
        { droneId, reason },
        {
          onSuccess: ({ tokens }) =>
            done(
              tokens.length === 0
                ? 'Removed.'
                : `Removed. Valid tokens may register it again: ${tokens.map(({ name }) => name).join(', ')}.`,
            ),
        },
      );
    } else if (act === 'undrain') {
      undrain.mutate(input, {
        onSuccess: ({ changed }) =>
          done(changed ? 'Takes new backends again.' : 'It was not draining.'),
      });
    } else {
      markLost.mutate(input, {
        onSuccess: ({ renewalsBlockedCount }) =>
          done(`Marked lost. Renewal of ${countText(renewalsBlockedCount, 'key')} is blocked.`),
      });
    }
  };
  return (
    <ActDialog
      isOpen
      onClose={close}
      title={`${TITLES[act]}: ${droneId}`}
      reason={act === 'undrain' ? 'optional' : 'required'}
      typed={typedFor(act, drone)}
      actLabel={TITLES[act]}
      isDangerous={isFinal(act)}
      isReady={overtaken === undefined}
      act={{ isPending: mutation.isPending, error: mutation.error, run }}
    >
      {overtaken === undefined ? null : <Notice tone="warn">{overtaken}</Notice>}
      <Consequence drone={drone} />
    </ActDialog>
  );
}

interface ConsequenceProps {
  readonly drone: Drone;
}

/** One answer holds this many keys; the ladder of the others is the same. */
const KEYS_LOOKED_AT = 100;

function DrainConsequence({ drone: { backendCount } }: ConsequenceProps) {
  return (
    <List spacing={4} size="sm">
      <List.Item>New backends go to other drones from now on.</List.Item>
      <List.Item>
        {backendCount === 0
          ? 'It has no backends now.'
          : `Its ${countText(backendCount, 'backend')} ${backendCount === 1 ? 'keeps' : 'keep'} running until stopped or ended. Keys are renewed as before.`}
      </List.Item>
      <List.Item>Undrain reverses this.</List.Item>
    </List>
  );
}

function StopConsequence({ drone: { backendCount } }: ConsequenceProps) {
  return (
    <List spacing={4} size="sm">
      <List.Item>New backends go to other drones from now on, as by Drain.</List.Item>
      <List.Item>
        Its {countText(backendCount, 'backend')} {backendCount === 1 ? 'is' : 'are'} asked to stop
        gracefully, each in the time of its program. Their keys are free once they have ended.
      </List.Item>
      <List.Item>The page of the drone shows how many are left.</List.Item>
    </List>
  );
}

function RemoveConsequence() {
  return (
    <List spacing={4} size="sm">
      <List.Item>It is in no list any more. The history and the audit keep its name.</List.Item>
      <List.Item>
        Its tokens stay valid: a drone of this id may register again, as a new one. Revoke them if
        that must not happen.
      </List.Item>
    </List>
  );
}

function UndrainConsequence({ drone: { lostAt } }: ConsequenceProps) {
  return (
    <List spacing={4} size="sm">
      <List.Item>
        {lostAt === null
          ? 'It gets new backends again, as long as it sends heartbeats.'
          : 'It stays lost until it opens a new session. From then on it gets new backends again.'}
      </List.Item>
      <List.Item>Keys whose renewal was blocked stay blocked.</List.Item>
    </List>
  );
}

/** What happens to the keys of a drone that is marked lost, and by when at the latest. */
function LostConsequence({ drone: { droneId, datacenter, backendCount } }: ConsequenceProps) {
  const read = useLiveQuery('keys', 'list', {
    droneId,
    limit: KEYS_LOOKED_AT,
    ...at(datacenter),
  });
  const ttlMs = Math.max(0, ...(read.data?.items ?? []).map(({ ladder }) => ladder.ttlMs));
  const until =
    ttlMs === 0
      ? 'Each expires at its deadline'
      : `Each expires at its deadline, the last of them within ${duration(ttlMs)}`;
  return (
    <List spacing={4} size="sm">
      <List.Item>
        It is unknown whether its {countText(backendCount, 'backend')} still run, so no key is freed
        at once.
      </List.Item>
      <List.Item>
        Renewal of all its keys is blocked. {until}, and can be granted to another drone from then
        on.
      </List.Item>
      <List.Item>
        If the drone is still running, it stops those backends itself: with SIGTERM first, and with
        SIGKILL before their keys expire.
      </List.Item>
      <List.Item>
        It gets no new backends until it has opened a new session and is undrained.
      </List.Item>
    </List>
  );
}

const BACKEND_EVERY_MS = 2_000;

/** Stops a backend: shows its signal and what follows for its key, and asks why. */
export function TerminateDialog({
  backend,
  isOpen,
  onClose,
}: DialogProps & {
  readonly backend: Backend;
}) {
  const [mode, setMode] = useState<RevokeMode>('graceful');
  const terminate = useApiMutation('backends', 'terminate');
  // The page behind a dialog is paused: only this looks what becomes of the backend meanwhile.
  const { data: latest = backend } = useQuery({
    ...query('backends', 'get', { backendId: backend.backendId, ...at(backend.datacenter) }),
    enabled: isOpen,
    refetchInterval: BACKEND_EVERY_MS,
  });
  const overtaken = terminate.isIdle ? terminateProblem(latest.status) : undefined;
  // A backend that is already stopping can only be stopped by force.
  const isGracefulOver = latest.status === 'terminating';
  const chosen = isGracefulOver ? 'force' : mode;
  const isForced = chosen === 'force';
  const { backendId } = backend;
  const close = (): void => {
    terminate.reset();
    setMode('graceful');
    onClose();
  };
  return (
    <ActDialog
      isOpen={isOpen}
      onClose={close}
      title={`Stop backend ${backendId}`}
      reason="required"
      typed={isForced ? { what: 'its key’s name', text: backend.key.name } : undefined}
      actLabel={isForced ? 'Stop by force' : 'Stop backend'}
      isDangerous={isForced}
      isReady={overtaken === undefined}
      act={{
        isPending: terminate.isPending,
        error: terminate.error,
        run: (reason) =>
          terminate.mutate(
            {
              backendId,
              mode: isForced ? 'hard' : 'soft',
              ...at(backend.datacenter),
              reason,
            },
            {
              onSuccess: ({ outcome }) => {
                notifications.show({ title: backendId, message: stoppedText(outcome, isForced) });
                close();
              },
            },
          ),
      }}
    >
      <Stack gap="sm">
        {overtaken === undefined ? null : <Notice tone="warn">{overtaken}</Notice>}
        <Text size="sm">
          It runs <Mono>{backend.program}</Mono> on <Mono>{backend.droneId}</Mono> under the key{' '}
          <Mono>{resourceText(backend.key)}</Mono>, token <Mono>{backend.fencingToken}</Mono>.
        </Text>
        <ModeChoice mode={chosen} isGracefulOver={isGracefulOver} onChange={setMode} />
        <Consequences mode={chosen} isGracefulOver={isGracefulOver} />
      </Stack>
    </ActDialog>
  );
}

function Consequences({
  mode,
  isGracefulOver,
}: {
  readonly mode: RevokeMode;
  readonly isGracefulOver: boolean;
}) {
  return (
    <List size="sm" spacing={4}>
      {isGracefulOver ? <List.Item>It was asked to stop already.</List.Item> : null}
      <List.Item>
        {mode === 'force'
          ? 'SIGKILL now, no grace period. What it has not written is lost.'
          : 'SIGTERM now, SIGKILL after the program’s grace period (10 s, unless the drone is configured otherwise).'}
      </List.Item>
      <List.Item>
        Its drone is told at once. If the drone is unreachable, the key expires at its deadline
        instead.
      </List.Item>
      <List.Item>
        The key is released when the backend has ended. The next caller gets a new one, with a
        larger token.
      </List.Item>
    </List>
  );
}
