import { type Count, LIMITS } from '@leasehold/keys-core';
import { Button, Group } from '@mantine/core';
import { useRef, useState } from 'react';
import { count, counted } from '~/lib/format.ts';
import { at } from '~/lib/here.ts';
import { useWhyNot } from '~/lib/session.tsx';
import { FACE_WORDS, type GrantFace, type GrantView } from '~/resources/grant-view.ts';
import { lazyDialog } from '~/ui/lazy-dialog.tsx';
import { ActFailure } from '~/ui/states.tsx';
import type { Selection } from '~/ui/table/use-selection.ts';
import { GuardedButton } from '~/ui/tip.tsx';
import { useShortcut } from '~/ui/use-shortcut.ts';
import type { BulkAction } from './bulk-texts.ts';
import { useBulkId } from './use-bulk.ts';
import { type ListedInput, useMatching } from './use-matching.ts';
import classes from './bulk.module.css';

export const BulkDialog = lazyDialog('action', () =>
  import('./bulk-dialog.tsx').then((module) => module.BulkDialog),
);

export interface BulkBarProps {
  readonly face: GrantFace;
  readonly selection: Pick<Selection<GrantView>, 'count' | 'items' | 'clear' | 'setAll'>;
  /** What the search of the list finds, on all of its pages. */
  readonly matching: { readonly input: ListedInput; readonly total: Count | undefined };
}

/** What can be done to the chosen rows; stands at the foot of the page. */
export function BulkBar({ face, selection, matching }: BulkBarProps) {
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
        <SelectMatching {...{ face, selection, matching }} />
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

/** Chooses all that the search finds, where that is more than what is chosen; at most what one action may have. */
function SelectMatching({ face, selection, matching: { input, total } }: BulkBarProps) {
  const { read, readCount, error } = useMatching(face, input);
  if (total === undefined || selection.count >= Math.min(total.count, LIMITS.bulkItemsMax)) {
    return null;
  }
  const isAll = total.isExact && total.count <= LIMITS.bulkItemsMax;
  return (
    <>
      <Button
        variant="subtle"
        size="compact-xs"
        disabled={readCount !== null}
        onClick={() =>
          void read(({ items }) =>
            selection.setAll(
              items.map((item) => [item.leaseId, item]),
              true,
            ),
          )
        }
      >
        {readCount === null
          ? isAll
            ? `Select all ${count(total.count)} that match`
            : `Select the first ${count(LIMITS.bulkItemsMax)} that match`
          : `Reading ${count(readCount)} …`}
      </Button>
      <ActFailure error={error} />
    </>
  );
}
