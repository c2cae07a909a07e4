/** The service of this slice, and what apps and other slices may use of it. */
import { type Role, roleAllows } from '../kernel/access.ts';
import type { Clock } from '../kernel/clock.ts';
import { type Caller, compareFound, FOUND_KINDS, type FoundKind } from '../kernel/face-types.ts';
import { LIMITS } from '../kernel/limits.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { Store } from '../postgres/open-store.ts';
import type { Sql } from '../postgres/sql.ts';
import { addGrantedNames, areNamesFilled, type Walk, walkOn, WALKS } from './sql/fill-names.ts';
import {
  findDrones,
  findIds,
  findNames,
  findPeople,
  findTokens,
  type FoundView,
  idsInText,
} from './sql/find.ts';

export type { FoundView } from './sql/find.ts';

export interface FindInput {
  readonly text: string;
  readonly kinds?: readonly FoundKind[] | undefined;
  readonly limit: number;
}

export interface Found {
  /** Best first. */
  readonly items: FoundView[];
  /**
   * False while the names of a database that was in use before are still being filled, and where there are too
   * many names to look for what few of these kinds contain.
   */
  readonly isComplete: boolean;
  /** What could not be searched this time: the rest was. */
  readonly failed: FoundKind[];
  /** ISO-8601. */
  readonly asOf: string;
}

export interface SearchService {
  /**
   * What contains a text, whatever its case: exact names first, then names that begin with it, then words,
   * then the rest; of each, what is held comes first, then what is shorter. Shows only what the caller may list.
   */
  find(input: FindInput, caller: Caller): Promise<Found>;
}

const NAME_KINDS = ['key', 'lease', 'environment', 'backend'] as const;

interface SearchDeps {
  readonly store: Store;
  readonly heartbeatMs: number;
  /** Called with each search that failed while others did not. */
  readonly onFailure: (error: unknown) => void;
}

/** One search, and the kinds that it finds. */
interface Part {
  readonly kinds: readonly FoundKind[];
  readonly find: () => Promise<FoundView[]>;
}

/** What a search is told of besides its items. */
interface Told {
  isCut: boolean;
}

/** Finds things by any part of their names. */
export function createSearchService(deps: SearchDeps): SearchService {
  const { reads } = deps.store;
  return {
    async find(input, caller) {
      const told: Told = { isCut: false };
      const parts = partsOf(deps, input, caller, told);
      const results = await Promise.allSettled(parts.map(({ find }) => find()));
      const failures = results.flatMap((result) =>
        result.status === 'rejected' ? [result.reason as unknown] : [],
      );
      if (failures.length > 0 && failures.length === parts.length) throw failures[0];
      failures.forEach(deps.onFailure);
      return {
        items: results
          .flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
          .sort(compareFound)
          .filter(isFirstOfItsKind)
          .slice(0, input.limit),
        failed: parts.flatMap(({ kinds }, at) => (results[at]?.status === 'rejected' ? kinds : [])),
        isComplete: (await areNamesFilled(reads)) && !told.isCut,
        asOf: await readNow(reads),
      };
    },
  };
}

function partsOf(
  { store, heartbeatMs }: SearchDeps,
  { text, kinds = FOUND_KINDS, limit }: FindInput,
  caller: Caller,
  told: Told,
): Part[] {
  const { reads, datacenter } = store;
  const { namespaces } = caller;
  const asked = { text, datacenter, limit };
  const names = NAME_KINDS.filter((kind) => kinds.includes(kind));
  const byId: Part = {
    kinds: names,
    find: () => findIds(reads, { ...asked, ids: idsInText(text), kinds: names, namespaces }),
  };
  // No name is that long: it is a line of a log.
  if (Buffer.byteLength(text) > LIMITS.searchTextBytesMax) return names.length > 0 ? [byId] : [];
  const parts: Part[] = [
    byId,
    {
      kinds: names,
      async find() {
        const { items, isCut } = await findNames(reads, { ...asked, kinds: names, namespaces });
        told.isCut = isCut;
        return items;
      },
    },
    { kinds: ['drone'], find: () => findDrones(reads, asked, heartbeatMs) },
    { kinds: ['person'], find: () => findPeople(reads, asked) },
    { kinds: ['token'], find: () => findTokens(reads, asked) },
  ];
  return parts.filter((part) =>
    part.kinds.some((kind) => kinds.includes(kind) && mayFind(kind, caller)),
  );
}

/** Whether the caller may list things of a kind: as the procedures that list them decide. */
function mayFind(kind: FoundKind, { role, namespaces }: Caller): boolean {
  if (kind === 'drone') return namespaces === null;
  if (kind !== 'person' && kind !== 'token') return true;
  return namespaces === null && roleAllows(role as Role, 'admin');
}

/** What is found by an id in the text may be found by its name too. */
function isFirstOfItsKind(item: FoundView, at: number, all: readonly FoundView[]): boolean {
  const isSame = (one: FoundView): boolean =>
    one.kind === item.kind &&
    one.namespace === item.namespace &&
    one.name === item.name &&
    one.text === item.text;
  return all.findIndex(isSame) === at;
}

/** Then the walks have their turn. */
const STATEMENTS_PER_PASS_MAX = 10;
/** A database with a million names that was in use before is filled in six minutes, with a part of a core. */
const FIRST_WALK_STATEMENTS_MAX = 3;
/** A walk that has ended once, and finds nothing to do, looks at 1,000 rows in this time. */
const WALK_EVERY_MS = 10_000;

/** Fills the table of names that searches read, see `sql/fill-names.ts`. */
export function createNameFiller(store: {
  readonly general: Sql<'general'>;
  readonly clock: Pick<Clock, 'nowMs'>;
}) {
  /** When a walk is next looked after; a walk that has not ended yet goes on in each pass. */
  const walkAtMs = new Map<Walk, number>();
  const addGranted = async (signal?: AbortSignal, onMore?: () => void): Promise<void> => {
    for (let statements = 0; statements < STATEMENTS_PER_PASS_MAX; statements += 1) {
      if (signal?.aborted === true) return;
      if ((await addGrantedNames(store.general)) !== true) return;
    }
    onMore?.();
  };
  const goOn = async (walk: Walk): Promise<void> => {
    const nowMs = store.clock.nowMs();
    if (nowMs < (walkAtMs.get(walk) ?? 0)) return;
    for (let statements = 0; statements < FIRST_WALK_STATEMENTS_MAX; statements += 1) {
      const walked = await walkOn(store.general, walk);
      if (walked?.hasEnded === false || (walked?.actedCount ?? 0) > 0) continue;
      walkAtMs.set(walk, nowMs + WALK_EVERY_MS);
      return;
    }
  };
  return {
    /** Adds names of new grants, and goes on with each walk. Calls `onMore` if there are more new grants. */
    async runOnce(signal?: AbortSignal, onMore?: () => void): Promise<void> {
      await addGranted(signal, onMore);
      for (const walk of WALKS) {
        if (signal?.aborted === true) return;
        await goOn(walk);
      }
    },
  };
}
