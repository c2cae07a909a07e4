import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search/search.ts';

const PAGE_ROWS = 100;

/** What the search of the audit knows beside what an act was done to. */
export const AUDIT_FIELDS = ['actor', 'resource'] as const;

/** What the address says of the audit. */
interface AuditWanted {
  readonly search: Search;
  readonly action: string | null;
  readonly from: string | null;
  readonly to: string | null;
  readonly after: string | null;
}

/** What is asked of `audit.list` for it. What is no instant is no filter. */
export function auditListInput(wanted: AuditWanted): NonNullable<Inputs['audit']['list']> {
  const { search, action, after } = wanted;
  const { actor } = search.fields;
  const resource = search.fields['resource'] ?? search.name ?? search.prefix;
  const from = instantOf(wanted.from);
  const to = instantOf(wanted.to);
  return {
    limit: PAGE_ROWS,
    ...(after === null ? {} : { cursor: after }),
    ...(actor === undefined ? {} : { actor }),
    ...(action === null ? {} : { action }),
    ...(resource === undefined ? {} : { resource }),
    ...(from === null ? {} : { from }),
    ...(to === null ? {} : { to }),
  };
}

const INSTANT = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z$/u;

/** An instant in UTC as the API takes it; null for anything else. */
export function instantOf(text: string | null): string | null {
  return text !== null && INSTANT.test(text) && !Number.isNaN(Date.parse(text))
    ? new Date(text).toISOString()
    : null;
}

/** As an `<input type="datetime-local">` has it, read as UTC. */
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
