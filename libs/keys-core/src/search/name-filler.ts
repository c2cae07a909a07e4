import type { Clock } from '../kernel/clock.ts';
import type { Sql } from '../postgres/sql.ts';
import { addGrantedNames, walkOn, WALKS, type Walk } from './sql/fill-names.ts';

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
