import { ScrollArea, SegmentedControl, Stack } from '@mantine/core';
import { useState } from 'react';
import { ActDialog } from '~/ui/dialogs/act-dialog.tsx';
import { Mono } from '~/ui/text/text.tsx';
import { PhaseBadge } from '../looks.tsx';
import { counted, fullName } from '~/lib/format.ts';
import { useApiMutation } from '~/lib/api/use-api-mutation.ts';
import { bulkSteps, bulkTitle, type BulkAction } from './bulk-texts.ts';
import type { GrantFace, GrantView } from '../grant-view.ts';
import type { RevokeMode } from '../actions/revoke/revoke-consequences.ts';
import { rememberBulk } from './use-bulk.ts';
import classes from './bulk.module.css';

/** Nobody reads more rows than this; the number of further ones is shown. */
const LISTED_MAX = 200;

/** One act on the grants that were chosen: they are frozen and shown when the dialog opens. */
export function BulkDialog({
  face,
  action,
  items,
  onClose,
  onStarted,
}: {
  readonly face: GrantFace;
  /** Null while the dialog is closed. */
  readonly action: BulkAction | null;
  readonly items: readonly GrantView[];
  readonly onClose: () => void;
  readonly onStarted: (bulkId: string) => void;
}) {
  const [frozen, setFrozen] = useState({ action, items });
  const [mode, setMode] = useState<RevokeMode>('graceful');
  const start = useApiMutation('bulk', 'start');
  if (action !== null && frozen.action !== action) {
    setFrozen({ action, items });
    setMode('graceful');
    start.reset();
  }
  if (action === null && frozen.action !== null) setFrozen({ action: null, items: frozen.items });
  const shown = frozen.action ?? 'revoke';
  const isForced = shown === 'revoke' && mode === 'force';
  const [only] = frozen.items;
  return (
    <ActDialog
      isOpen={action !== null}
      onClose={onClose}
      title={bulkTitle(shown, face, frozen.items.length)}
      reason="required"
      typed={
        frozen.items.length > 1
          ? { what: 'how many they are', text: String(frozen.items.length) }
          : isForced && only !== undefined
            ? { what: 'the name', text: only.name }
            : undefined
      }
      actLabel={bulkTitle(shown, face, frozen.items.length)}
      isDangerous={isForced}
      act={{
        isPending: start.isPending,
        error: start.error,
        run: (reason) =>
          start.mutate(
            {
              action: shown,
              ...(shown === 'revoke' ? { mode } : {}),
              reason: reason ?? '',
              items: frozen.items.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken })),
            },
            {
              onSuccess: ({ bulkId }) => {
                rememberBulk(bulkId, frozen.items);
                onStarted(bulkId);
              },
            },
          ),
      }}
    >
      <Stack gap="sm">
        {shown === 'revoke' ? (
          <SegmentedControl
            aria-label="How they are revoked"
            fullWidth
            data={[
              { value: 'graceful', label: 'Graceful: let them stop' },
              { value: 'force', label: 'Force: end them now' },
            ]}
            value={mode}
            onChange={(value) => setMode(value === 'force' ? 'force' : 'graceful')}
          />
        ) : null}
        <ul className={classes['steps']}>
          {bulkSteps(shown, face, mode).map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ul>
        <FrozenList items={frozen.items} />
      </Stack>
    </ActDialog>
  );
}

/** The chosen grants as they were when the dialog was opened. */
function FrozenList({ items }: { readonly items: readonly GrantView[] }) {
  const rest = items.length - LISTED_MAX;
  return (
    <ScrollArea.Autosize
      mah={180}
      className={classes['frozen'] ?? ''}
      viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': 'What was selected' }}
    >
      <ul>
        {items.slice(0, LISTED_MAX).map((item) => (
          <li key={item.leaseId}>
            <span className={classes['name']}>{fullName(item)}</span>
            <PhaseBadge phase={item.phase} />
            <Mono>{item.holder}</Mono>
          </li>
        ))}
        {rest > 0 ? <li>{`and ${counted(rest, 'other')}`}</li> : null}
      </ul>
    </ScrollArea.Autosize>
  );
}
