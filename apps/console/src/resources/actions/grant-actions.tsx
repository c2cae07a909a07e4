import { IconHandStop, IconLock, IconLockOpen } from '@tabler/icons-react';
import { useState } from 'react';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { GuardedButton } from '~/ui/guarded-button.tsx';
import { useWhyNot } from '~/lib/session/session.tsx';
import { whyNotActable, type GrantFace, type GrantView } from '../grant-view.ts';

const BlockDialog = lazyDialog('isOpen', () => import('./block-dialog.tsx'));

const RevokeDialog = lazyDialog('isOpen', () => import('./revoke/revoke-dialog.tsx'));

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
  return (
    <>
      {face === 'environment' ? null : (
        <GuardedButton
          variant="default"
          whyNot={whyNot}
          leftSection={grant.renewable ? <IconLock size={14} /> : <IconLockOpen size={14} />}
          onClick={() => setOpen('block')}
        >
          {grant.renewable ? 'Block renewal' : 'Allow renewal'}
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
