import { LeaseError } from '../kernel/errors/index.ts';
import { FAIR_USE_MAX } from '../kernel/access/fair-use.ts';
import {
  readDeclarations,
  writeDeclarations,
  type DeclarationRequest,
} from './sql/declarations.ts';
import type { Store } from '../postgres/open-store.ts';
import { decodeCursor, pageOf } from '../postgres/paging/page-cursor.ts';
import { readNow } from '../postgres/database-settings.ts';
import { isoOf } from '../postgres/sql.ts';
import type { Caller, DatedPage, PageInput } from '../kernel/face-types.ts';
import { assertTtl } from './acquire/deadlines.ts';
import type { Declarations, LeaseDeclaration } from './lease-views.ts';

/**
 * Records which leases a service uses, for people to see. A namespace that is named twice counts
 * once, with its last entry.
 * @throws {LeaseError} `lease.ttl_out_of_range`; `quota.exceeded` when the caller would have declared
 * more than `ownMax`: nothing is recorded then.
 */
export async function declareLeases(
  store: Store,
  { declarations, ownMax = FAIR_USE_MAX.declarations }: Declarations,
  caller: Caller,
): Promise<{ declared: number }> {
  const byNamespace = new Map<string, DeclarationRequest>();
  for (const { namespace, ttlMs, description } of declarations) {
    assertTtl(ttlMs);
    byNamespace.set(namespace, { namespace, ttlMs, description: description ?? null });
  }
  if (byNamespace.size > 0) {
    const by = { ...caller, ownMax };
    const written = await writeDeclarations(store.general, by, [...byNamespace.values()]);
    if (written === 0) {
      const details = { limit: 'declarations', max: ownMax };
      throw new LeaseError(
        'quota.exceeded',
        `The quota declarations of this token is ${String(ownMax)}.`,
        { details },
      );
    }
  }
  return { declared: byNamespace.size };
}

/** A page of declarations. @throws {LeaseError} `request.invalid` for a foreign cursor. */
export async function declarationPage(
  store: Store,
  input: PageInput,
  caller: Caller,
): Promise<DatedPage<LeaseDeclaration>> {
  const [after = null] = input.cursor === undefined ? [] : decodeCursor(input.cursor, 1);
  const rows = await readDeclarations(store.reads, {
    namespaces: caller.namespaces,
    after,
    limit: input.limit + 1,
  });
  const { items, nextCursor } = pageOf(rows, input.limit, ({ namespace }) => [namespace]);
  return {
    items: items.map((row) => ({ ...row, declaredAt: isoOf(row.declaredAt) })),
    nextCursor,
    asOf: await readNow(store.reads),
  };
}
