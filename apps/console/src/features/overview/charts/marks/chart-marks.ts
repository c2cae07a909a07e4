/** What people did, as marks on the axis of time. Pure. */
import { routes } from '~/lib/routes.ts';
import type { AuditEntry } from '~/resources/audit.ts';

/** Acts closer than this have one mark. */
const TOGETHER_PX = 24;

/** One act, or several that are too close to tell apart, newest first. */
export interface ActMark {
  readonly acts: readonly AuditEntry[];
  /** Of the first of them, epoch milliseconds. */
  readonly atMs: number;
  /** Its entries in the audit, and no others. */
  readonly href: string;
}

/**
 * The marks of a chart that spans this time in so much room. The audit lists acts in the order in which they were
 * recorded: where the database's clock was set back, that is not the order of their times.
 */
export function marksOf(
  acts: readonly AuditEntry[],
  {
    fromMs,
    toMs,
    widthPx,
  }: { readonly fromMs: number; readonly toMs: number; readonly widthPx: number },
): ActMark[] {
  const togetherMs = ((toMs - fromMs) / Math.max(1, widthPx)) * TOGETHER_PX;
  const groups: AuditEntry[][] = [];
  const newestFirst = acts.toSorted((one, other) => Date.parse(other.at) - Date.parse(one.at));
  for (const act of newestFirst) {
    const atMs = Date.parse(act.at);
    if (atMs < fromMs || atMs > toMs) continue;
    const group = groups.at(-1);
    const newest = group?.[0];
    if (group !== undefined && newest !== undefined && Date.parse(newest.at) - atMs < togetherMs) {
      group.push(act);
    } else groups.push([act]);
  }
  return groups.map((group) => ({
    acts: group,
    atMs: Date.parse(group.at(-1)?.at ?? ''),
    href: auditHref(group),
  }));
}

function auditHref(acts: readonly AuditEntry[]): string {
  const [newest] = acts;
  const oldest = acts.at(-1);
  if (newest === undefined || oldest === undefined) return routes.audit();
  // `to` itself is not included.
  const to = new Date(Date.parse(newest.at) + 1).toISOString();
  return routes.audit({
    ...{ from: oldest.at, to },
    ...(acts.length === 1 ? { action: newest.action, q: `actor:"${newest.actor}"` } : {}),
  });
}
