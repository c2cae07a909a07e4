import { EVENT_KINDS, type EventKind, type Face, FACES } from '@leasehold/keys-core';
import type { Inputs } from '~/lib/api/api.ts';
import type { Search } from '~/lib/search.ts';
import { LEASE_ID } from '~/resources/list/grant-search.ts';
import { type Answered, isWhole } from '~/ui/states.tsx';
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
    limit: PAGE_ROWS,
    cursor: after ?? undefined,
    actor,
    resource,
    text,
    action: action ?? undefined,
    // An action that is named is shown, whichever it is.
    signIns: action === null ? signInsOf(wanted.show) : undefined,
    ...timeRangeInput(wanted),
  };
}

function signInsOf(show: string | null): boolean | undefined {
  return show !== null && Object.hasOwn(SHOWN, show) ? SHOWN[show as keyof typeof SHOWN] : false;
}

const FACE_LABELS = { key: 'Keys', lease: 'Leases', environment: 'Environments' } as const;
/** The choice of a type, for a menu. */
export const FACE_OPTIONS = FACES.map((value) => ({ value, label: FACE_LABELS[value] }));

/** The fields of the events' search, beside the whole name of a resource. */
export const EVENT_FIELDS = ['namespace', 'lease'] as const;

/** The filters of the events, as the address has them. */
interface EventsWanted extends TimeRange {
  readonly search: Search;
  readonly face: Face | null;
  readonly kinds: readonly EventKind[];
  readonly after: string | null;
}

/** The input of `events.list`. Events are found by whole names only, so a bare word is a whole name. */
export function eventListInput({
  search,
  face,
  kinds,
  after,
  ...range
}: EventsWanted): Inputs['events']['list'] {
  const name = search.name ?? search.contains;
  const { namespace, lease } = search.fields;
  return {
    limit: 100,
    cursor: after ?? undefined,
    name,
    namespace,
    leaseId: lease !== undefined && LEASE_ID.test(lease) ? lease.toLowerCase() : undefined,
    face: face ?? undefined,
    kinds: kinds.length === 0 ? undefined : [...kinds],
    ...timeRangeInput(range),
  };
}

/** The parts of the search that could not be understood. */
export function eventProblems({ problems, fields }: Search): readonly string[] {
  const { lease } = fields;
  if (lease === undefined || LEASE_ID.test(lease)) return problems;
  return [...problems, 'lease: needs a whole lease id'];
}

/** Kinds of the address, unknown ones left out. */
export function kindsOf(text: readonly string[]): EventKind[] {
  return EVENT_KINDS.filter((kind) => text.includes(kind));
}

export function faceOf(text: string | null): Face | null {
  return FACES.find((face) => face === text) ?? null;
}

/** An event in the address: its id, `77.1204`, and where it is not of this datacenter, `77.1204@fra`. */
interface EventAddress {
  readonly id: string;
  readonly datacenter?: string;
}

const ADDRESS = /^(\d{1,18}\.\d{1,18})(?:@(.+))?$/u;

export function eventAddress(event: { id: string; datacenter: string }, here: string): string {
  return event.datacenter === here ? event.id : `${event.id}@${event.datacenter}`;
}

/** Undefined for anything else. */
export function parseEventAddress(text: string | null): EventAddress | undefined {
  const [, id, datacenter] = ADDRESS.exec(text ?? '') ?? [];
  if (id === undefined) return undefined;
  return datacenter === undefined ? { id } : { id, datacenter };
}

/** The id just before one, after which it is the next that is there. */
export function eventBefore(id: string): string {
  const [epoch = '0', number = '1'] = id.split('.');
  return `${epoch}.${String(BigInt(number) - 1n)}`;
}

/** The codes of an answer to which the event, and whatever came before it, is no longer kept. */
const GONE: ReadonlySet<string> = new Set(['events.compacted', 'events.other_epoch']);

/** What became of an event that was looked for and not found; undefined while that is not known. Pure. */
export function missingEvent({
  data,
  error,
}: {
  readonly data: Answered | undefined;
  readonly error: { readonly code: string; readonly message: string } | null;
}): { readonly isGone: boolean; readonly text: string } | undefined {
  const gone = { isGone: true, text: 'This event is no longer kept.' };
  const failed = (why: string) => ({ isGone: false, text: `This event could not be read: ${why}` });
  if (error !== null) return GONE.has(error.code) ? gone : failed(error.message);
  if (data === undefined) return undefined;
  if (isWhole(data)) return gone;
  const silent = (data.unreachable ?? []).map(({ datacenter }) => datacenter).join(', ');
  return failed(`${silent} does not answer.`);
}
