/** Who used an environment for what, from its events. Pure. */
import {
  type EventItem,
  grantsOfEvents,
  type PastGrant,
} from '~/resources/timeline/grants-of-events.ts';

/** One use of an environment. */
export interface PastUse extends PastGrant {
  /** Null where its beginning is on an older page. */
  readonly action: string | null;
  readonly comment: string | null;
}

/** Turns a page of events, newest first, into uses, newest first. */
export function usesOfEvents(
  events: readonly EventItem[],
  page: { readonly isNewestPage: boolean },
): PastUse[] {
  const details = new Map<string, unknown>();
  for (const { leaseId, kind, detail } of events) {
    if (kind === 'granted' || kind === 'taken_over') details.set(leaseId, detail);
  }
  return grantsOfEvents(events, page).map((grant) => {
    const detail = details.get(grant.leaseId);
    return { ...grant, action: textIn(detail, 'action'), comment: textIn(detail, 'comment') };
  });
}

function textIn(detail: unknown, field: string): string | null {
  if (typeof detail !== 'object' || detail === null) return null;
  const value = (detail as Record<string, unknown>)[field];
  return typeof value === 'string' && value !== '' ? value : null;
}
