import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search/search.ts';

const PAGE_ROWS = 100;

/** The fields of the audit's search, beside the bare word for what an act was done to. */
export const AUDIT_FIELDS = ['actor', 'resource'] as const;

/** The filters of the audit, as the address has them. */
interface AuditWanted {
  readonly search: Search;
  readonly action: string | null;
  readonly from: string | null;
  readonly to: string | null;
  readonly after: string | null;
}

/** The input of `audit.list` for these filters. An invalid instant is left out. */
export function auditListInput(wanted: AuditWanted): NonNullable<Inputs['audit']['list']> {
  const { search, action, after } = wanted;
  const { actor } = search.fields;
  const resource = search.fields['resource'] ?? search.name ?? search.contains;
  return {
    ...{ limit: PAGE_ROWS, cursor: after ?? undefined, actor, resource },
    action: action ?? undefined,
    from: instantOf(wanted.from) ?? undefined,
    to: instantOf(wanted.to) ?? undefined,
  };
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/u;

/** An instant in UTC as the API takes it; null for anything else. */
export function instantOf(text: string | null): string | null {
  return text !== null && INSTANT.test(text) && !Number.isNaN(Date.parse(text))
    ? new Date(text).toISOString()
    : null;
}

/** The value of an `<input type="datetime-local">` for an instant, in UTC. */
export function toInput(instant: string | null): string {
  return instant === null ? '' : instant.slice(0, 16);
}

export function fromInput(text: string): string | null {
  return text === '' ? null : instantOf(`${text}Z`);
}

/** From when to when; null for no bound. ISO-8601 instants. */
export interface Span {
  readonly from: string | null;
  readonly to: string | null;
}

/** The span that is shown, for the button that changes it: `since 2026-11-21 10:00`. */
export function spanText(from: string | null, to: string | null): string {
  const short = (instant: string): string => instant.slice(0, 16).replace('T', ' ');
  if (from !== null && to !== null) return `${short(from)} – ${short(to)}`;
  if (from !== null) return `since ${short(from)}`;
  return to === null ? 'Any time' : `before ${short(to)}`;
}
