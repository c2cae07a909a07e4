/**
 * Bulk actions: which one is shown and how far it is, what they are called and do, in words, and how what they are
 * about is read.
 */
import { type Count, LIMITS, printableText } from '@leasehold/keys-core';
import { hashKey, useQuery } from '@tanstack/react-query';
import { textParam, useQueryState } from '~/lib/address.ts';
import { type ApiError, type Inputs, type Outputs, query } from '~/lib/api/api.ts';
import { count, countText, duration } from '~/lib/format.ts';
import { MOVING_SORT, type ResourceRef } from '~/lib/routes.ts';
import type { RevokeMode } from '~/resources/actions/revoke-consequences.ts';
import { FACE_WORDS, type GrantFace, type GrantView, isInForce } from '~/resources/grant-view.ts';
import type { ListPage } from '~/ui/table/table-state.ts';

const LOOK_EVERY_MS = 700;
const STORED = 'leasehold.bulk';

/** The bulk action that the page shows, in its address. */
export function useBulkId(): readonly [string | null, (bulkId: string | null) => void] {
  const [bulkId, setBulkId] = useQueryState('bulk', textParam, 'replace');
  return [bulkId, (next) => setBulkId(next)];
}

type BulkProgress = Outputs['bulk']['get'];

/** Whether a bulk action still has something to do. */
export function isUnderWay({ state }: Pick<BulkProgress, 'state'>): boolean {
  return state === 'running' || state === 'interrupted';
}

/**
 * Whether all is over: carried out or aborted, and what was revoked has stopped. A controller of the version
 * before does not say what is stopping.
 */
export function isAllOver(progress: BulkProgress): boolean {
  const { stopping } = progress as Partial<BulkProgress>;
  return !isUnderWay(progress) && (stopping ?? 0) === 0;
}

/** How far a bulk action is, read again until all is over, even behind a dialog. */
export function useBulkProgress(bulkId: string) {
  return useQuery({
    ...query('bulk', 'get', { bulkId }),
    refetchInterval: ({ state: { data, error } }) => lookAgainMs(data, error),
  });
}

/** In how long to look again; false: never, because all is over, or nothing is known of it and no other answer will come. */
export function lookAgainMs(
  progress: BulkProgress | undefined,
  error: Pick<ApiError, 'isRetryable'> | null,
): number | false {
  if (progress === undefined && error?.isRetryable === false) return false;
  return progress === undefined || !isAllOver(progress) ? LOOK_EVERY_MS : false;
}

/** Keeps the names of the chosen grants for this tab, because the API answers lease ids. */
export function rememberBulk(
  bulkId: string,
  items: readonly (ResourceRef & { readonly leaseId: string })[],
): void {
  const names = Object.fromEntries(
    items.map(({ leaseId, namespace, name }) => [leaseId, { namespace, name }]),
  );
  try {
    window.sessionStorage.setItem(STORED, JSON.stringify({ bulkId, names }));
  } catch {
    // The tab's storage is full: the ids are shown then.
  }
}

/** The names of the grants in a bulk action of this tab, by lease id. */
export function namesOfBulk(bulkId: string): Readonly<Record<string, ResourceRef>> {
  try {
    const text = window.sessionStorage.getItem(STORED);
    const stored = (text === null ? null : JSON.parse(text)) as {
      bulkId?: unknown;
      names?: Record<string, ResourceRef>;
    } | null;
    return stored?.bulkId === bulkId ? (stored.names ?? {}) : {};
  } catch {
    return {};
  }
}

export type BulkAction = Outputs['bulk']['get']['action'];

const VERBS: Record<BulkAction, string> = {
  revoke: 'Revoke',
  blockRenewal: 'Block renewal of',
  allowRenewal: 'Allow renewal of',
};

/** `Revoke 3 keys`, `Block renewal of 1 lease`. */
export function bulkTitle(action: BulkAction, face: GrantFace, itemCount: number): string {
  return `${VERBS[action]} ${countText(itemCount, ...FACE_WORDS[face])}`;
}

/**
 * Which rows of a list a bulk action can have: those of this datacenter, `here`. `place` names it where the list has
 * others beside. `listed`: the datacenter in the list's input.
 */
export function bulkScope(
  listed: string | undefined,
  here: string,
): { readonly whyNot: string | undefined; readonly place: string } {
  if (listed === 'all') return { whyNot: undefined, place: ` in ${here}` };
  const isHere = listed === undefined || listed === here;
  const whyNot = isHere ? undefined : 'Bulk actions work in one datacenter. Use the console there.';
  return { whyNot, place: '' };
}

/** What a bulk action does to each of its items. */
export function bulkSteps(action: BulkAction, face: GrantFace, mode: RevokeMode): string[] {
  const others =
    'Only the listed grants are changed. One that ends meanwhile is skipped, and reported as ended.';
  return [...STEPS[action](face, mode), others];
}

/**
 * What a selection is now, before anything is done to it: how much of it is held. Where that could not be counted, as
 * the list showed it.
 */
export function selectionText(
  face: GrantFace,
  { isCounted, ...of }: Selected & { readonly isCounted: boolean },
): string {
  return isCounted ? heldText(face, of) : `Not counted. As last shown: ${heldText(face, of)}`;
}

interface Selected {
  readonly selected: number;
  readonly held: number;
}

function heldText(face: GrantFace, { selected, held }: Selected): string {
  const [one, many] = FACE_WORDS[face];
  if (selected === 0) return 'Nothing is held.';
  if (held === selected) {
    return selected === 1
      ? `The selected ${one} is held.`
      : `All ${count(selected)} selected are held.`;
  }
  const rest = 'Grants that have ended are skipped.';
  return held === 0
    ? `None of the ${countText(selected, `selected ${one}`, `selected ${many}`)} is held.`
    : `${count(held)} of ${count(selected)} selected ${held === 1 ? 'is' : 'are'} held. ${rest}`;
}

/** By when everything that is revoked has stopped. */
export function worstCaseText(face: GrantFace, held: number, stopsWithinMs: number): string {
  const what = face === 'key' ? 'backend' : 'holder';
  if (held === 0) return 'Nothing is revoked.';
  const subject = held === 1 ? `Its ${what} stops` : `All ${what}s stop`;
  return `${subject} within ${duration(stopsWithinMs)} at worst, by the clock of each machine.`;
}

const STEPS: Record<BulkAction, (face: GrantFace, mode: RevokeMode) => string[]> = {
  revoke(face, mode) {
    if (mode === 'force') {
      return face === 'key'
        ? [
            'Each grant ends. Its backend gets SIGKILL now, no grace period.',
            'No key is granted again before its backend is known to be gone, or the key has expired.',
          ]
        : [
            'Each grant ends now, and is free for others at once.',
            'A holder without a connection may continue until its own deadline.',
          ];
    }
    return face === 'key'
      ? ['None is renewed any more, and each backend is asked to stop.']
      : ['None is renewed any more, and each holder is told to stop.'];
  },
  blockRenewal: () => [
    'The next renewal of each is refused, and its holder stops then. Until then you can allow it again.',
  ],
  allowRenewal: () => [
    'The next renewal of each is answered, if it comes before the grant expires.',
  ],
};

const DONE: Record<BulkAction, string> = {
  revoke: 'revoked',
  blockRenewal: 'blocked',
  allowRenewal: 'allowed',
};

/** `12 of 40 revoked, 2 failed`: how far a bulk action is. */
export function bulkProgressText(progress: {
  readonly action: BulkAction;
  readonly total: number;
  readonly done: number;
  readonly failedCount: number;
}): string {
  const { action, total, done, failedCount } = progress;
  const failed = failedCount === 0 ? '' : `, ${count(failedCount)} failed`;
  return `${count(done - failedCount)} of ${count(total)} ${DONE[action]}${failed}`;
}

/** `Waiting for 3 backends to stop, within 42 s at worst`: what is left of a bulk revoke that was carried out. */
export function stoppingText(face: GrantFace, stopping: number, worstCaseMs: number): string {
  const what = face === 'key' ? 'backend' : 'holder';
  return `Waiting for ${countText(stopping, what)} to stop, within ${duration(worstCaseMs)} at worst.`;
}

/** What a failure's code means here. */
export function failureText(code: string): string {
  return code === 'gone' ? 'had ended before' : code;
}

/** The input of a list of grants, of any page. */
export type ListedInput = object &
  Pick<
    Exclude<Inputs['keys']['list'], void>,
    'datacenter' | 'namespace' | 'includeChildren' | 'sort' | 'direction'
  >;

/** The same in this datacenter alone. */
export function inputHere(input: ListedInput): ListedInput {
  return { ...input, datacenter: undefined };
}

const BY_NAME = { sort: 'name', direction: 'asc' } as const;

/**
 * What to read, page by page, of what a list shows: in its own order, so that the first are those that it shows first.
 * By name where a renewal moves rows in that order, and where no order is asked for.
 */
export function matchingInput(input: ListedInput, { isHeldAlone = false }: Part = {}) {
  return {
    ...inputHere(input),
    cursor: undefined,
    ...(isHeldAlone ? { endedWithinMs: 0 } : {}),
    ...(isHeldAlone || input.sort === MOVING_SORT ? BY_NAME : {}),
    limit: LIMITS.pageSizeMax,
  };
}

/** Tells readings apart: not the pages of the list, nor an order that it is not read in. */
export function readingOf(input: ListedInput, of: Part = {}): string {
  return hashKey([{ ...matchingInput(input, of), datacenter: input.datacenter }]);
}

/** `Select all 120 in dc1 that match`. `total`: how many do; `place`: see {@link bulkScope}. */
export function selectLabel(total: Count, { sort }: ListedInput, place: string): string {
  if (total.isExact && total.count <= LIMITS.bulkItemsMax) {
    return `Select all ${count(total.count)}${place} that match`;
  }
  const order = sort === MOVING_SORT ? ' by name' : '';
  return `Select the first ${count(LIMITS.bulkItemsMax)}${order}${place} that match`;
}

/** Which part of what a search finds is read; everything, if it says nothing. */
export interface Part {
  /** Whether what has ended is not asked for. */
  readonly isHeldAlone?: boolean;
  readonly isWanted?: (item: GrantView) => boolean;
}

/** How what is held is read, and nothing else. What was ended by force and is held back is listed, too. */
export const HELD_ALONE: Part = { isHeldAlone: true, isWanted: isInForce };

export interface Matching {
  readonly items: readonly GrantView[];
  /** Whether more match than one bulk action may have. */
  readonly isCut: boolean;
}

/** No more rows are read for one bulk action. Not so many pages: the bytes of its rows may end a page early. */
const READ_MAX = 10 * LIMITS.bulkItemsMax;

/**
 * Reads page after page, up to what one bulk action may have of what `isWanted`, each grant once. Undefined if
 * `onPage`, which gets the number of rows read so far, says `false`. @throws whatever `readPage` does.
 */
export async function readMatching(
  readPage: (cursor: string | undefined) => Promise<ListPage<GrantView>>,
  {
    isWanted = () => true,
    onPage = () => true,
  }: Pick<Part, 'isWanted'> & { readonly onPage?: (readCount: number) => boolean } = {},
): Promise<Matching | undefined> {
  const found = new Map<string, GrantView>();
  let readCount = 0;
  let cursor: string | null = null;
  do {
    const page: ListPage<GrantView> = await readPage(cursor ?? undefined);
    readCount += page.items.length;
    if (!onPage(readCount)) return undefined;
    for (const item of page.items) if (isWanted(item)) found.set(item.leaseId, item);
    cursor = page.nextCursor;
    // A page that is not the last has a row at least.
  } while (cursor !== null && found.size < LIMITS.bulkItemsMax && readCount < READ_MAX);
  return {
    items: [...found.values()].slice(0, LIMITS.bulkItemsMax),
    isCut: cursor !== null || found.size > LIMITS.bulkItemsMax,
  };
}

/** What is to be known about everything of a namespace, before it is stopped. `here`: the one of several datacenters. */
export function stopNote(
  { namespace, includeChildren = false }: ListedInput,
  found: Matching,
  here: string | undefined,
): string {
  const below = includeChildren ? ' and below' : '';
  return [
    `The search is of the namespace ${printableText(String(namespace))}${below}.`,
    ...(here === undefined
      ? []
      : [`Those of ${here} alone: use the console of each other datacenter.`]),
    ...(found.isCut
      ? [
          `There are more. These are the first ${count(found.items.length)}: do it again for the rest when these have ended.`,
        ]
      : []),
  ].join(' ');
}
