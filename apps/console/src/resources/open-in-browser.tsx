import { Group } from '@mantine/core';
import { useClipboard } from '@mantine/hooks';
import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { ActFailure, Notice } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

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
