import { useQuery } from '@tanstack/react-query';
import { query } from '~/lib/api/api.ts';
import { at } from '~/lib/here.ts';
import { type GrantFace, type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import { Notice } from '~/ui/states.tsx';
import { VisibleText } from '~/ui/text.tsx';
import { overtakenBy } from './overtaken.ts';

/** The page behind a dialog is paused: only this looks what has become of the grant. */
const EVERY_MS = 2_000;

/** What others have done to a grant since a dialog about it was opened, and whether it is over. */
export function useOvertaken(face: GrantFace, grant: GrantView, isOpen: boolean) {
  const { namespace, name, datacenter } = grant;
  const { data } = useQuery({
    ...query(GROUP_OF[face], 'get', { namespace, name, ...at(datacenter) }),
    enabled: isOpen,
    refetchInterval: EVERY_MS,
  });
  return isOpen ? overtakenBy(grant, data) : undefined;
}

export function OvertakenNotice({ by }: { readonly by: ReturnType<typeof useOvertaken> }) {
  if (by === undefined) return null;
  return (
    <Notice tone="warn">
      <VisibleText>{by.text}</VisibleText>
    </Notice>
  );
}
