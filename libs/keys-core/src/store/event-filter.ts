import type { EventKind } from '../kernel/events.ts';
import { isWithinNamespace, type Face, type Resource } from '../kernel/resource.ts';
import { Prisma } from './generated/client.ts';
import { C } from './rows.ts';

/** Which events a reader wants, and which it may see. What is left out asks for nothing. */
export interface EventFilter {
  readonly face?: Face | undefined;
  /** This one and its children. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  readonly kinds?: readonly EventKind[] | undefined;
  /** Namespaces, children included, that the reader is limited to; null for no limit. */
  readonly limits: readonly string[] | null;
}

/** Whether a reader gets an event; {@link eventCondition} says the same in SQL. */
export function matchesFilter(
  event: Resource & { readonly kind: EventKind },
  filter: EventFilter,
): boolean {
  return (
    (filter.face === undefined || event.face === filter.face) &&
    (filter.name === undefined || event.name === filter.name) &&
    (filter.kinds?.includes(event.kind) ?? true) &&
    (filter.namespace === undefined || isWithinNamespace(event.namespace, filter.namespace)) &&
    (filter.limits?.some((allowed) => isWithinNamespace(event.namespace, allowed)) ?? true)
  );
}

/** The condition of a filter on a row of `lease_event` whose alias is `v`. */
export function eventCondition(filter: EventFilter): Prisma.Sql {
  const { face, namespace, name, kinds, limits } = filter;
  const conditions = [Prisma.sql`lease_is_within(v.namespace, ${json(limits)}::jsonb)`];
  if (face !== undefined) conditions.push(Prisma.sql`v.face = ${face} ${C}`);
  if (name !== undefined) conditions.push(Prisma.sql`v.name = ${name} ${C}`);
  if (kinds !== undefined) conditions.push(Prisma.sql`v.kind = any(${[...kinds]}::text[])`);
  if (namespace !== undefined) {
    conditions.push(Prisma.sql`lease_is_within(v.namespace, ${json([namespace])}::jsonb)`);
  }
  return Prisma.join(conditions, ' and ');
}

function json(namespaces: readonly string[] | null): string | null {
  return namespaces === null ? null : JSON.stringify(namespaces);
}
