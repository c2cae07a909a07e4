import { resourceText } from '@leasehold/keys-core';
import { List, Stack, Text } from '@mantine/core';
import { notifications } from '@mantine/notifications';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { query } from '~/lib/api/api.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { at } from '~/lib/routes.ts';
import { ModeChoice } from '~/resources/actions/act-parts.tsx';
import type { RevokeMode } from '~/resources/actions/revoke-consequences.ts';
import { ActDialog, type DialogProps } from '~/ui/act-dialog.tsx';
import { Notice } from '~/ui/states.tsx';
import { Mono } from '~/ui/text.tsx';
import { type Backend, terminateProblem } from './backend-texts.ts';

const EVERY_MS = 2_000;

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
    refetchInterval: EVERY_MS,
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
              onSuccess: () => {
                notifications.show({
                  title: backendId,
                  message: `Its drone has been told to stop it${isForced ? ' by force' : ''}.`,
                });
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
