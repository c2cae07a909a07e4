import { IconHandStop, IconLock, IconLockOpen } from '@tabler/icons-react';
import { useState } from 'react';
import { useWhyNot } from '~/lib/session.tsx';
import { type GrantFace, type GrantView, whyNotActable } from '~/resources/grant-view.ts';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { type PageAct, usePageActs } from '~/ui/shell/palette-store.ts';
import { GuardedButton } from '~/ui/tip.tsx';

const BlockDialog = lazyDialog('isOpen', () =>
  import('./grant-dialogs.tsx').then((module) => module.BlockDialog),
);

const RevokeDialog = lazyDialog('isOpen', () =>
  import('./grant-dialogs.tsx').then((module) => module.RevokeDialog),
);

/** What can be done about a grant; disabled with the reason where it cannot. */
export function GrantActions({
  face,
  grant,
}: {
  readonly face: GrantFace;
  readonly grant: GrantView;
}) {
  const [open, setOpen] = useState<'revoke' | 'block' | null>(null);
  const roleWhyNot = useWhyNot('operator');
  const whyNot = roleWhyNot ?? whyNotActable(face, grant);
  const close = (): void => setOpen(null);
  const BlockIcon = grant.renewable ? IconLock : IconLockOpen;
  const blockLabel = grant.renewable ? 'Block renewal' : 'Allow renewal';
  const block: PageAct = {
    ...{ label: `${blockLabel} of ${grant.name}`, icon: BlockIcon, whyNot },
    run: () => setOpen('block'),
  };
  usePageActs([
    {
      ...{ label: `Revoke ${grant.name}`, icon: IconHandStop, whyNot },
      run: () => setOpen('revoke'),
    },
    ...(face === 'environment' ? [] : [block]),
  ]);
  return (
    <>
      {face === 'environment' ? null : (
        <GuardedButton
          variant="default"
          whyNot={whyNot}
          leftSection={<BlockIcon size={14} />}
          onClick={block.run}
        >
          {blockLabel}
        </GuardedButton>
      )}
      <GuardedButton
        color="red.8"
        whyNot={whyNot}
        leftSection={<IconHandStop size={14} />}
        onClick={() => setOpen('revoke')}
      >
        Revoke
      </GuardedButton>
      <RevokeDialog face={face} grant={grant} isOpen={open === 'revoke'} onClose={close} />
      {face === 'environment' ? null : (
        <BlockDialog face={face} grant={grant} isOpen={open === 'block'} onClose={close} />
      )}
    </>
  );
}
