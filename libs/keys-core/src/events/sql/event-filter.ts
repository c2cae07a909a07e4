import { ASKED_EVENT_KINDS, type EventKind } from '../../kernel/events.ts';
import { isWithinNamespace, type Face, type Resource } from '../../kernel/resource/resource.ts';
import { C, type Fragment, fragment, joinFragments } from '../../postgres/sql.ts';

/** Which events a reader wants, and which it may see. A field that is left out does not filter. */
export interface EventFilter {
  readonly face?: Face | undefined;
  /** This one and its children. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** By default all but {@link ASKED_EVENT_KINDS}. */
  readonly kinds?: readonly EventKind[] | undefined;
  /** Namespaces, children included, that the reader is limited to; null for no limit. */
  readonly limits: readonly string[] | null;
}

/** Whether a reader gets an event; {@link eventCondition} is the same in SQL. */
export function matchesFilter(
  event: Resource & { readonly kind: EventKind },
  filter: EventFilter,
): boolean {
  return (
    (filter.face === undefined || event.face === filter.face) &&
    (filter.name === undefined || event.name === filter.name) &&
    (filter.kinds?.includes(event.kind) ?? !ASKED_EVENT_KINDS.includes(event.kind)) &&
    (filter.namespace === undefined || isWithinNamespace(event.namespace, filter.namespace)) &&
    (filter.limits?.some((allowed) => isWithinNamespace(event.namespace, allowed)) ?? true)
  );
}

/**
 * The condition of a filter on a row of `lease_event` whose alias is `v`. Written out rather than
 * with `lease_is_within`, which would be called for every row of every page.
 */
export function eventCondition(filter: EventFilter): Fragment {
  const { face, namespace, name, kinds, limits } = filter;
  const conditions = [fragment`true`];
  if (limits !== null) conditions.push(withinAny(limits));
  if (namespace !== undefined) conditions.push(withinAny([namespace]));
  if (face !== undefined) conditions.push(fragment`v.face = ${face} ${C}`);
  if (name !== undefined) conditions.push(fragment`v.name = ${name} ${C}`);
  conditions.push(
    kinds === undefined
      ? fragment`v.kind <> all(${[...ASKED_EVENT_KINDS]}::text[])`
      : fragment`v.kind = any(${[...kinds]}::text[])`,
  );
  return joinFragments(conditions, ' and ');
}

function withinAny(parents: readonly string[]): Fragment {
  if (parents.length === 0) return fragment`false`;
  const within = parents.map((parent) =>
    parent === ''
      ? fragment`true`
      : fragment`v.namespace = ${parent} ${C} or starts_with(v.namespace, ${`${parent}.`})`,
  );
  return fragment`(${joinFragments(within, ' or ')})`;
}
