import type { BackendDetail, BackendView } from '@leasehold/keys-core/fleet';
import { Group } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import type { ReactNode } from 'react';
import { duration } from '~/lib/format.ts';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { ActFailure, Notice } from '~/ui/states.tsx';
import { RelativeTime } from '~/ui/text.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

const SECOND_MS = 1_000;

/** When a backend is stopped that nobody uses, and when it was used last; nothing for one that runs on. */
export function idleFacts({
  idleStopSeconds,
  lastUsedAt,
  idleStopAt,
}: Pick<BackendView, 'idleStopSeconds' | 'lastUsedAt' | 'idleStopAt'>): Record<string, ReactNode> {
  if (idleStopSeconds === null) return {};
  return {
    'Idle stop': `after ${duration(idleStopSeconds * SECOND_MS)} without a use`,
    'Last use': lastUsedAt === null ? null : <RelativeTime at={lastUsedAt} />,
    'Stops when unused': idleStopAt === null ? null : <RelativeTime at={idleStopAt} />,
  };
}

/** Who uses a backend through gateways; nothing for one that nobody does. */
export function gatewayFacts({
  throughGateways,
}: Pick<BackendDetail, 'throughGateways'>): Record<string, ReactNode> {
  if (throughGateways === null) return {};
  const { connections, users, requestsPerSecond } = throughGateways;
  return {
    'Through gateways': `${String(connections)} open, ${String(users)} users`,
    Requests: `${requestsPerSecond.toFixed(1)} a second`,
  };
}

/** Whether a gateway is configured changes with a controller's start alone. */
const EVERY_MS = 60_000;

/** For how long an address that was copied lets somebody in: time enough to paste it. */
const COPIED_SECONDS = 60;

/**
 * Opens a key through the gateway, or copies its address, as the person who is signed in; nothing where no gateway is
 * configured.
 */
export function OpenInBrowser({
  of: { name, namespace, tag },
}: {
  readonly of: { readonly name: string; readonly namespace: string; readonly tag: string };
}) {
  const gateway = useLiveQuery('gateway', 'list', undefined, { everyMs: EVERY_MS });
  const sign = useApiMutation('gateway', 'sign');
  const signToCopy = useApiMutation('gateway', 'sign');
  const clipboard = useClipboard();
  const whyNot = useWhyNot('client');
  const { actor } = useSession();
  if (gateway.data?.url == null) return null;
  function open(): void {
    // In the click: browsers open no window for what is answered later. What runs there must not reach this page.
    const target = window.open('about:blank', '_blank');
    if (target !== null) target.opener = null;
    sign.mutate(
      { key: { name, namespace, tag }, access: { user: actor } },
      {
        onSuccess({ url }) {
          if (target === null) window.location.assign(url);
          else target.location.replace(url);
        },
        onError: () => target?.close(),
      },
    );
  }
  function copy(): void {
    const access = { user: actor, expiresInSeconds: COPIED_SECONDS };
    signToCopy.mutate(
      { key: { name, namespace, tag }, access },
      { onSuccess: ({ url }) => clipboard.copy(url) },
    );
  }
  const look = { size: 'compact-xs', variant: 'default', whyNot } as const;
  return (
    <>
      <Group gap="xs" mt={6}>
        <GuardedButton {...look} loading={sign.isPending} onClick={open}>
          Open
        </GuardedButton>
        <GuardedButton {...look} loading={signToCopy.isPending} onClick={copy}>
          {clipboard.copied ? 'Copied' : 'Copy URL'}
        </GuardedButton>
      </Group>
      <ActFailure error={sign.error ?? signToCopy.error} />
      {clipboard.error === null ? null : (
        <Notice tone="warn">The browser does not let this page copy.</Notice>
      )}
    </>
  );
}
