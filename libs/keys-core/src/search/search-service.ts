import { LIMITS } from '../kernel/limits.ts';
import { roleAllows, type Role } from '../kernel/access/roles.ts';
import type { Caller } from '../kernel/face-types.ts';
import { compareFound, FOUND_KINDS, type FoundKind } from '../kernel/found-kinds.ts';
import { readNow } from '../postgres/database-settings.ts';
import type { Store } from '../postgres/open-store.ts';
import type { FindInput, FoundView, SearchService } from './search-types.ts';
import { areNamesFilled } from './sql/fill-names.ts';
import { idsInText } from './ids-in-text.ts';
import { findIds } from './sql/find-ids.ts';
import { findNames } from './sql/find-names.ts';
import { findDrones, findPeople, findTokens } from './sql/find-others.ts';

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

/** Finds things by any part of their names. */
export function createSearchService(deps: SearchDeps): SearchService {
  const { reads } = deps.store;
  return {
    async find(input, caller) {
      const parts = partsOf(deps, input, caller);
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
        isComplete: await areNamesFilled(reads),
        asOf: await readNow(reads),
      };
    },
  };
}

function partsOf(
  { store, heartbeatMs }: SearchDeps,
  { text, kinds = FOUND_KINDS, limit }: FindInput,
  caller: Caller,
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
    { kinds: names, find: () => findNames(reads, { ...asked, kinds: names, namespaces }) },
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
