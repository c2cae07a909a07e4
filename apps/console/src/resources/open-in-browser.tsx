import { useApiMutation, useLiveQuery } from '~/lib/live/use-live-query.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { ActFailure } from '~/ui/states.tsx';
import { GuardedButton } from '~/ui/tip.tsx';

/** Whether a gateway is configured changes with a controller's start alone. */
const EVERY_MS = 60_000;
const ACCESS_SECONDS = 60 * 60;

/** Opens a key through the gateway, as the person who is signed in; nothing where no gateway is configured. */
export function OpenInBrowser({
  of: { name, namespace, tag },
}: {
  readonly of: { readonly name: string; readonly namespace: string; readonly tag: string };
}) {
  const gateway = useLiveQuery('gateway', 'list', undefined, { everyMs: EVERY_MS });
  const sign = useApiMutation('gateway', 'sign');
  const whyNot = useWhyNot('client');
  const { actor } = useSession();
  if (gateway.data?.url == null) return null;
  const access = { user: actor, expiresInSeconds: ACCESS_SECONDS };
  const open = (): void =>
    sign.mutate(
      { key: { name, namespace, tag }, access },
      { onSuccess: ({ url }) => window.open(url, '_blank', 'noopener,noreferrer') },
    );
  return (
    <>
      <GuardedButton
        size="compact-xs"
        variant="default"
        whyNot={whyNot}
        loading={sign.isPending}
        onClick={open}
      >
        Open
      </GuardedButton>
      <ActFailure error={sign.error} />
    </>
  );
}
