import { Button, Group } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { useCallback, useEffect, useRef, useState } from 'react';
import { type Count, LIMITS } from '@leasehold/keys-core';
import { type ApiError, query } from '~/lib/api/api.ts';
import { count, countText } from '~/lib/format.ts';
import { at } from '~/lib/routes.ts';
import { useSession, useWhyNot } from '~/lib/session.tsx';
import { FACE_WORDS, type GrantFace, type GrantView, GROUP_OF } from '~/resources/grant-view.ts';
import { useTotal } from '~/resources/list/list-parts.tsx';
import { lazyDialog } from '~/ui/lazy.tsx';
import { ActFailure } from '~/ui/states.tsx';
import type { Selection } from '~/ui/table/table-state.ts';
import { GuardedButton } from '~/ui/tip.tsx';
import { useShortcut } from '~/ui/use-shortcut.ts';
import {
  type BulkAction,
  bulkScope,
  HELD_ALONE,
  inputHere,
  type ListedInput,
  type Matching,
  matchingInput,
  type Part,
  readingOf,
  readMatching,
  selectLabel,
  stopNote,
  useBulkId,
} from './bulk.ts';
import classes from './bulk.module.css';

const BulkDialog = lazyDialog('action', () =>
  import('./bulk-dialog.tsx').then((module) => module.BulkDialog),
);

export interface BulkBarProps {
  readonly face: GrantFace;
  readonly selection: Pick<Selection<GrantView>, 'count' | 'items' | 'clear' | 'setAll'>;
  /** What the search of the list finds, on all of its pages. */
  readonly matching: {
    readonly input: ListedInput;
    readonly total: Count | undefined;
    /** Why it must not be read. */
    readonly whyNot: string | undefined;
  };
}

/** What can be done to the chosen rows; stands at the foot of the page. */
export function BulkBar({ face, selection, matching }: BulkBarProps) {
  const [action, setAction] = useState<BulkAction | null>(null);
  const [, setBulkId] = useBulkId();
  const roleWhyNot = useWhyNot('operator', { isOfAll: true });
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
          {`${countText(selection.count, ...FACE_WORDS[face])} selected`}
        </span>
        <Button variant="subtle" size="compact-xs" onClick={() => selection.clear()}>
          Clear
        </Button>
        <SelectMatching key={readingOf(matching.input)} {...{ face, selection, matching }} />
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

const MORE = { data: { nextCursor: '' } };

/**
 * Chooses all that the search finds in this datacenter, where that is more than what is chosen; at most what one action
 * may have.
 */
function SelectMatching({ face, selection, matching: { input, ...matching } }: BulkBarProps) {
  const { read, readCount, error } = useMatching(face, input);
  /** How many were chosen the last time, if more match. */
  const [cutAt, setCutAt] = useState<number>();
  const { whyNot: scopeWhyNot, place } = bulkScope(input.datacenter, useSession().datacenter);
  // What the list counts is of all datacenters.
  const ofHere = useTotal(GROUP_OF[face], inputHere(input), place === '' ? {} : MORE);
  const total = place === '' ? matching.total : ofHere;
  const whyNot = matching.whyNot ?? scopeWhyNot;
  const cut =
    cutAt === undefined ? null : (
      <span className="dimmed">{`More match than the ${count(cutAt)} that were read.`}</span>
    );
  if (total === undefined || selection.count >= Math.min(total.count, LIMITS.bulkItemsMax)) {
    return cut;
  }
  return (
    <>
      {cut}
      <GuardedButton
        variant="subtle"
        size="compact-xs"
        whyNot={whyNot}
        disabled={readCount !== null}
        onClick={() =>
          void read(({ items, isCut }) => {
            setCutAt(isCut ? items.length : undefined);
            selection.setAll(
              items.map((item) => [item.leaseId, item]),
              true,
            );
          })
        }
      >
        {readCount === null ? selectLabel(total, input, place) : `Reading ${count(readCount)} …`}
      </GuardedButton>
      <ActFailure error={error} />
    </>
  );
}

const NONE: readonly GrantView[] = [];

export interface StopAllProps {
  readonly face: GrantFace;
  readonly input: ListedInput;
  /** Why what the search finds must not be read. */
  readonly searchWhyNot: string | undefined;
}

/**
 * Revokes everything that is held here in the namespace that a list shows, after a dialog with its number. A reading
 * ends with its search: another one must not be answered with what was found for the last. The dialog does not: what
 * it began is followed, wherever Back has led meanwhile.
 */
export function StopAll({ face, input, searchWhyNot }: StopAllProps) {
  const [, setBulkId] = useBulkId();
  const [isOpen, setOpen] = useState(false);
  const [found, setFound] = useState<{
    readonly matching: Matching;
    /** What it was read for. */
    readonly input: ListedInput;
  }>();
  const { datacenter } = useSession();
  const noteOf = ({ matching, input: of }: NonNullable<typeof found>): string => {
    const { place } = bulkScope(of.datacenter, datacenter);
    return stopNote(of, matching, place === '' ? undefined : datacenter);
  };
  return (
    <>
      {input.namespace === undefined ? null : (
        <StopButton
          key={readingOf(input, HELD_ALONE)}
          {...{ face, input, searchWhyNot }}
          onFound={(matching) => {
            setFound({ matching, input });
            setOpen(true);
          }}
        />
      )}
      <BulkDialog
        face={face}
        action={isOpen ? 'revoke' : null}
        items={found?.matching.items ?? NONE}
        note={found === undefined ? undefined : noteOf(found)}
        onClose={() => setOpen(false)}
        onStarted={(bulkId) => {
          setOpen(false);
          setBulkId(bulkId);
        }}
      />
    </>
  );
}

function StopButton({
  face,
  input,
  searchWhyNot,
  onFound,
}: StopAllProps & { readonly onFound: (matching: Matching) => void }) {
  const { read, readCount, error } = useMatching(face, input, HELD_ALONE);
  const roleWhyNot = useWhyNot('operator', { isOfAll: true });
  const { whyNot: scopeWhyNot, place } = bulkScope(input.datacenter, useSession().datacenter);
  return (
    <>
      <GuardedButton
        variant="default"
        whyNot={roleWhyNot ?? searchWhyNot ?? scopeWhyNot}
        loading={readCount !== null}
        onClick={() => void read(onFound)}
      >
        {`Stop all${place}`}
      </GuardedButton>
      <ActFailure error={error} />
    </>
  );
}

const EVERYTHING: Part = {};

/**
 * Reads what the search of a list finds in this datacenter, page by page, up to what one bulk action may have.
 * `readCount`, the number of rows, grows meanwhile; null while nothing is read.
 */
function useMatching(face: GrantFace, input: ListedInput, of = EVERYTHING) {
  const client = useQueryClient();
  const [readCount, setReadCount] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const isGone = useRef(false);
  useEffect(() => {
    isGone.current = false;
    return () => {
      isGone.current = true;
    };
  }, []);
  const read = useCallback(
    async (onRead: (matching: Matching) => void): Promise<void> => {
      setReadCount(0);
      setError(null);
      try {
        const matching = await readMatching(
          (cursor) =>
            client.query({
              ...query(GROUP_OF[face], 'list', { ...matchingInput(input, of), cursor }),
              // Only for the selection: no other part of the page shows it.
              staleTime: 0,
              gcTime: 0,
            }),
          {
            ...of,
            onPage(count) {
              if (!isGone.current) setReadCount(count);
              return !isGone.current;
            },
          },
        );
        if (matching !== undefined) onRead(matching);
      } catch (failure) {
        if (!isGone.current) setError(failure as ApiError);
      } finally {
        if (!isGone.current) setReadCount(null);
      }
    },
    [client, face, input, of],
  );
  return { read, readCount, error };
}
