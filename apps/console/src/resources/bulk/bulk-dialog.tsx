import { ScrollArea, Stack } from '@mantine/core';
import { useEffect, useMemo, useState } from 'react';
import { resourceText } from '@leasehold/keys-core';
import { useDatacenters } from '~/lib/datacenters.ts';
import { countText } from '~/lib/format.ts';
import { useDatabaseNow } from '~/lib/live/use-database-now.ts';
import { useApiMutation } from '~/lib/live/use-live-query.ts';
import { signedOut } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { ModeChoice } from '~/resources/actions/act-parts.tsx';
import { type RevokeMode, stoppedWithinMs } from '~/resources/actions/revoke-consequences.ts';
import { type GrantFace, type GrantView, isInForce } from '~/resources/grant-view.ts';
import { PhaseBadge } from '~/resources/looks.tsx';
import { ActDialog } from '~/ui/act-dialog.tsx';
import { Mono, VisibleText } from '~/ui/text.tsx';
import {
  type BulkAction,
  bulkSteps,
  bulkTitle,
  rememberBulk,
  selectionText,
  worstCaseText,
} from './bulk.ts';
import classes from './bulk.module.css';

/** Nobody reads more rows than this; the number of further ones is shown. */
const LISTED_MAX = 200;

/** One act on the grants that were chosen: they are frozen and shown when the dialog opens. */
export function BulkDialog({
  face,
  action,
  items,
  note,
  onClose,
  onStarted,
}: {
  readonly face: GrantFace;
  /** Null while the dialog is closed. */
  readonly action: BulkAction | null;
  readonly items: readonly GrantView[];
  /** What is to be known about the selection. */
  readonly note?: string | undefined;
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
  const { held, stopsWithinMs, counting } = useHeld(action === null ? null : frozen.items);
  const title = bulkTitle(shown, face, held.length);
  return (
    <ActDialog
      isOpen={action !== null}
      onClose={onClose}
      title={title}
      reason="required"
      typed={typedFor(held, isForced)}
      actLabel={isForced ? `${title} by force` : title}
      isDangerous={isForced}
      isReady={counting !== 'under way' && held.length > 0}
      act={{
        isPending: start.isPending,
        error: start.error,
        run: (reason) =>
          start.mutate(
            {
              action: shown,
              ...(shown === 'revoke' ? { mode } : {}),
              reason: reason ?? '',
              items: held.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken })),
            },
            {
              onSuccess: ({ bulkId }) => {
                rememberBulk(bulkId, held);
                onStarted(bulkId);
              },
            },
          ),
      }}
    >
      <Stack gap="sm">
        {shown === 'revoke' ? <ModeChoice mode={mode} isOfMany onChange={setMode} /> : null}
        <Counted {...{ face, counting, note }} selected={frozen.items.length} held={held.length} />
        <ul className={classes['steps']}>
          {bulkSteps(shown, face, mode).map((step) => (
            <li key={step}>{step}</li>
          ))}
        </ul>
        {shown === 'revoke' ? (
          <p className={classes['worst']}>{worstCaseText(face, held.length, stopsWithinMs)}</p>
        ) : null}
        <FrozenList items={frozen.items} held={held} />
      </Stack>
    </ActDialog>
  );
}

type Counting = 'under way' | 'done' | 'failed';

function Counted({
  face,
  counting,
  note,
  ...of
}: {
  readonly face: GrantFace;
  readonly counting: Counting;
  readonly selected: number;
  readonly held: number;
  readonly note: string | undefined;
}) {
  return (
    <p className={classes['counted']} role="status">
      {counting === 'under way'
        ? 'Counting what is held …'
        : selectionText(face, { ...of, isCounted: counting === 'done' })}
      {note === undefined ? null : ` ${note}`}
    </p>
  );
}

/** More than one are confirmed by their number, a single one by its name if it is ended by force. */
function typedFor(held: readonly GrantView[], isForced: boolean) {
  const [only] = held;
  if (held.length > 1) return { what: 'how many they are', text: String(held.length) };
  return isForced && only !== undefined
    ? { what: 'the name', text: resourceText(only) }
    : undefined;
}

/**
 * Which of the chosen grants are held at this moment, by the database: a selection may be old. Where the
 * controller does not say, as they were shown.
 */
function useHeld(items: readonly GrantView[] | null) {
  const { mutate, reset, ...preview } = useApiMutation('bulk', 'preview');
  const isSignedOut = useSignal(signedOut);
  useEffect(() => {
    // Counted once somebody has signed in again: the sign-in takes a refusal away, and sends nothing.
    if (items === null || isSignedOut) return;
    reset();
    // An empty selection is refused, and there is nothing to count.
    if (items.length === 0) return;
    mutate({ items: items.map(({ leaseId, fencingToken }) => ({ leaseId, fencingToken })) });
  }, [items, isSignedOut, mutate, reset]);
  const nowMs = useDatabaseNow();
  return useMemo(() => {
    const all = items ?? [];
    const isHeld = new Set(preview.data?.held);
    const held = all.filter((item) =>
      preview.data === undefined ? isInForce(item) : isHeld.has(item.leaseId),
    );
    const longestMs = (): number =>
      Math.max(0, ...held.map((item) => stoppedWithinMs(item, nowMs ?? Date.parse(item.asOf))));
    return {
      held,
      stopsWithinMs: preview.data?.stopsWithinMs ?? longestMs(),
      counting: countingOf(preview.data !== undefined || all.length === 0, preview.isError),
    };
  }, [items, preview.data, preview.isError, nowMs]);
}

function countingOf(isDone: boolean, isFailed: boolean): Counting {
  if (isDone) return 'done';
  return isFailed ? 'failed' : 'under way';
}

/** The chosen grants as they were when the dialog was opened; those that are not held are marked. */
function FrozenList({
  items,
  held,
}: {
  readonly items: readonly GrantView[];
  readonly held: readonly GrantView[];
}) {
  const rest = items.length - LISTED_MAX;
  const { isSeveral } = useDatacenters();
  return (
    <ScrollArea.Autosize
      mah={180}
      className={classes['frozen'] ?? ''}
      viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': 'What was selected' }}
    >
      <ul>
        {items.slice(0, LISTED_MAX).map((item) => (
          <li key={item.leaseId} data-skipped={held.includes(item) ? undefined : true}>
            <span className={classes['name']}>
              <VisibleText>{resourceText(item)}</VisibleText>
            </span>
            {isSeveral ? <Mono>{item.datacenter}</Mono> : null}
            {held.includes(item) ? (
              <>
                <PhaseBadge phase={item.phase} />
                <Mono>{item.holder}</Mono>
              </>
            ) : (
              <span>skipped, not held</span>
            )}
          </li>
        ))}
        {rest > 0 ? <li>{`and ${countText(rest, 'other')}`}</li> : null}
      </ul>
    </ScrollArea.Autosize>
  );
}
