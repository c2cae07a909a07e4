import { Button, Group } from '@mantine/core';
import { LIMITS } from '@leasehold/keys-core';
import { useRef, useState } from 'react';
import { lazyDialog } from '~/ui/dialogs/lazy-dialog.tsx';
import { GuardedButton } from '~/ui/guarded-button.tsx';
import { useShortcut } from '~/ui/shortcuts/use-shortcut.ts';
import type { Selection } from '~/ui/table/use-selection.ts';
import { count, counted } from '~/lib/format.ts';
import { at } from '~/lib/datacenters/here.ts';
import { useWhyNot } from '~/lib/session/session.tsx';
import type { BulkAction } from './bulk-texts.ts';
import { FACE_WORDS, type GrantFace, type GrantView } from '../grant-view.ts';
import { useBulkId } from './use-bulk.ts';
import classes from './bulk.module.css';

const BulkDialog = lazyDialog('action', () => import('./bulk-dialog.tsx'));

/** What can be done to the chosen rows; stands at the foot of the page. */
export function BulkBar({
  face,
  selection,
}: {
  readonly face: GrantFace;
  readonly selection: Pick<Selection<GrantView>, 'count' | 'items' | 'clear'>;
}) {
  const [action, setAction] = useState<BulkAction | null>(null);
  const [, setBulkId] = useBulkId();
  const roleWhyNot = useWhyNot('operator');
  const max = LIMITS.bulkItemsMax;
  const elsewhere = selection.items.filter(({ datacenter }) => at(datacenter).datacenter);
  const whyNot =
    roleWhyNot ??
    (selection.count > max ? `At most ${count(max)} at a time.` : undefined) ??
    (elsewhere.length > 0
      ? `Bulk actions work in one datacenter, and ${count(elsewhere.length)} of these are in another one. Use the console there.`
      : undefined);
  const actions: readonly (readonly [BulkAction, string])[] =
    face === 'environment'
      ? [['revoke', 'Revoke']]
      : [
          ['revoke', 'Revoke'],
          ['blockRenewal', 'Block renewal'],
          ['allowRenewal', 'Allow renewal'],
        ];
  const acts = useRef<HTMLDivElement>(null);
  useShortcut('a', 'Act on what is selected', () => {
    acts.current?.querySelector('button')?.focus();
  });
  return (
    <div className={classes['bar']} role="region" aria-label="Selection">
      <Group gap={4}>
        <span className={classes['chosen']} role="status">
          {`${counted(selection.count, ...FACE_WORDS[face])} selected`}
        </span>
        <Button variant="subtle" size="compact-xs" onClick={() => selection.clear()}>
          Clear
        </Button>
      </Group>
      <Group gap="xs" ref={acts}>
        {actions.map(([name, label]) => (
          <GuardedButton
            key={name}
            {...(name === 'revoke' ? { color: 'red.8' } : { variant: 'default' })}
            whyNot={whyNot}
            onClick={() => setAction(name)}
          >
            {label}
          </GuardedButton>
        ))}
      </Group>
      <BulkDialog
        face={face}
        action={action}
        items={selection.items}
        onClose={() => setAction(null)}
        onStarted={(bulkId) => {
          setAction(null);
          selection.clear();
          setBulkId(bulkId);
        }}
      />
    </div>
  );
}
