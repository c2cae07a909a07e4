import type { Inputs } from '~/lib/api/api.ts';
import { type TimeRange, timeRangeInput } from './time-range.ts';

const PAGE_ROWS = 100;

/** Which entries are shown: what operators did, by default; signing in and out; or both. */
const SHOWN = { 'sign-ins': true, all: undefined } as const;

/** What a text of the audit's search asks for. */
interface AuditSearch {
  readonly actor?: string;
  readonly resource?: string;
  /** The rest: part of the resource, the reason or the actor. */
  readonly text?: string;
}

const FIELD = /(?<=^|\s)(actor|resource):(?:"([^"]*)"|(\S+))/giu;

/** `actor:` and `resource:` name a whole value; everything else is one text that is looked for. */
export function parseAuditSearch(q: string): AuditSearch {
  const fields: Record<string, string> = {};
  const rest = q.replaceAll(FIELD, (_whole, field: string, quoted?: string, bare?: string) => {
    fields[field.toLowerCase()] = quoted ?? bare ?? '';
    return ' ';
  });
  const text = rest.replaceAll(/\s+/gu, ' ').trim();
  const plain = /^"(.+)"$/u.exec(text)?.[1] ?? text;
  return { ...withoutEmpty(fields), ...(plain === '' ? {} : { text: plain }) };
}

function withoutEmpty(fields: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''));
}

/** The filters of the audit, as the address has them. */
interface AuditWanted extends TimeRange {
  readonly q: string;
  readonly action: string | null;
  readonly show: string | null;
  readonly after: string | null;
}

/** The input of `audit.list` for these filters. An invalid instant is left out. */
export function auditListInput(wanted: AuditWanted): Exclude<Inputs['audit']['list'], void> {
  const { q, action, after } = wanted;
  const { actor, resource, text } = parseAuditSearch(q);
  return {
    ...{ limit: PAGE_ROWS, cursor: after ?? undefined, actor, resource, text },
    action: action ?? undefined,
    // An action that is named is shown, whichever it is.
    signIns: action === null ? signInsOf(wanted.show) : undefined,
    ...timeRangeInput(wanted),
  };
}

function signInsOf(show: string | null): boolean | undefined {
  return show !== null && Object.hasOwn(SHOWN, show) ? SHOWN[show as keyof typeof SHOWN] : false;
}
