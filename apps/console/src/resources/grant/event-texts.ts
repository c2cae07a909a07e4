import { type BackendEnd, type EventView, printableText, sayEnd } from '@leasehold/keys-core';
import { duration } from '~/lib/format.ts';
import { routes } from '~/lib/routes.ts';
import { droneOf } from '~/resources/names.ts';

/** A piece of a sentence: a text, and the page of what it names, or whether it is who did it. */
interface TextPart {
  readonly text: string;
  readonly href?: string;
  readonly isActor?: true;
}

type Told = Pick<
  EventView,
  'kind' | 'face' | 'actor' | 'reason' | 'detail' | 'fencingToken' | 'at'
> & {
  readonly datacenter?: string;
};

/** What happened, in a sentence: `drone-fra-2 was granted the key with token 42`. Pure. */
export function eventSentence(event: Told): TextPart[] {
  const partsOf: Parts = PARTS[event.kind] ?? actParts;
  return partsOf(event, detailOf(event.detail));
}

type Parts = (event: Told, detail: Detail) => TextPart[];

/** Others are acts of somebody, or kinds of a later version. */
const PARTS: Partial<Record<EventView['kind'], Parts>> = {
  granted: grantParts,
  taken_over: grantParts,
  expired: (event) => [{ text: `The grant expired without a renewal${whyOf(event)}` }],
  renewal_refused: refusalParts,
  crash_loop: (_event, detail) => [{ text: crashText(detail) }],
  superseded: (_event, { holder, by }) => [
    { text: `${String(holder)} was superseded by ${String(by)} while it waited` },
  ],
};

function actParts(event: Told, detail: Detail): TextPart[] {
  const { actor, datacenter } = event;
  return [nameOf(actor, datacenter), { text: `${actOf(event, detail)}${whyOf(event)}` }];
}

function whyOf({ reason }: Told): string {
  return reason === null || reason === '' ? '' : `: ${reason}`;
}

function grantParts(event: Told, detail: Detail): TextPart[] {
  const thing = `the ${event.face} with token ${event.fencingToken}`;
  const text =
    event.kind === 'granted'
      ? ` was granted ${thing}`
      : ` took over ${thing}; the grant before it had expired`;
  return [
    holderOf(event, detail),
    { text: `${text}${sharingOf(detail)}${purposeOf(detail)}` },
    ...askedBy(event, detail),
  ];
}

const SHARING: Readonly<Record<string, string>> = {
  permit: ', with a permit',
  shared: ', shared',
  exclusive: ', alone',
};

/** How several may hold it at once; nothing for what one holds at a time. */
function sharingOf({ mode }: Detail): string {
  return typeof mode === 'string' ? (SHARING[mode] ?? '') : '';
}

/** What an actor did; nothing for a kind of a later version. */
function actOf({ kind, face }: Told, detail: Detail): string {
  const acts: Partial<Record<EventView['kind'], string>> = {
    released: movedTo(detail) ?? ` released the ${face}`,
    failed: ` released the ${face} after a failure`,
    removed: ` removed the ${face}`,
    renewal_blocked: ' blocked the renewal of the grant',
    renewal_allowed: ' allowed the renewal of the grant again',
    updated:
      detail['mode'] === 'shared'
        ? ` shares the ${face} from now on`
        : ' changed the metadata of the grant',
    revoked: ` revoked the ${face}${modeOf(detail)}`,
  };
  return acts[kind] ?? '';
}

/** The sentence without its links; what cannot be seen in it is escaped. */
export function eventText(event: Told): string {
  return printableText(
    eventSentence(event)
      .map(({ text }) => text)
      .join(''),
  );
}

/** How many refusals an event stands for; undefined for any other event. */
export function refusalsOf(event: Pick<EventView, 'kind' | 'detail'>): number | undefined {
  if (event.kind !== 'renewal_refused') return undefined;
  const { count } = detailOf(event.detail);
  return typeof count === 'number' ? count : 1;
}

function refusalParts(event: Told, detail: Detail): TextPart[] {
  const count = refusalsOf(event) ?? 1;
  const times = count === 1 ? 'The renewal' : `${String(count)} renewals`;
  return [
    { text: `${times} by ` },
    holderOf(event, detail),
    { text: ` ${count === 1 ? 'was' : 'were'} refused: ` },
    ...refusalReason(event, detail),
  ];
}

/** `3 backends in a row have failed; of the last one, it crashed with exit code 17: the next start waits 1 s`. */
function crashText({ failures, reason, exitCode, delayMs }: Detail): string {
  const end = sayEnd({
    reason: (reason ?? null) as BackendEnd['reason'],
    exitCode: typeof exitCode === 'number' ? exitCode : null,
  });
  const waits = typeof delayMs === 'number' ? `: the next start waits ${duration(delayMs)}` : '';
  return `${String(failures)} backends in a row have failed; of the last one, ${end}${waits}`;
}

const ENDS: Readonly<Record<string, string>> = {
  expired: 'the grant had expired',
  released: 'the grant had been released',
  revoked: 'the grant had been revoked',
};

function refusalReason(event: Told, detail: Detail): TextPart[] {
  const { reason } = event;
  if (reason === 'renewal_blocked') return [{ text: 'its renewal is blocked' }];
  const end = ENDS[reason ?? ''];
  if (end !== undefined) return [{ text: `${end}${before(event, detail)}` }];
  if (reason !== 'superseded') return [{ text: reason ?? 'no reason was recorded' }];
  const { nextHolder, nextToken, askedToken } = detail;
  if (typeof nextHolder === 'string') {
    const next = holderPart(event, nextHolder);
    return [next, { text: ` holds the ${event.face} now, with token ${String(nextToken)}` }];
  }
  return typeof askedToken === 'string'
    ? [{ text: `it came with token ${askedToken}, and the grant has ${event.fencingToken}` }]
    : [{ text: 'another grant has taken its place' }];
}

/** `3 s before`: how long the grant was over when the first renewal came. */
function before({ at }: Told, { endedAt }: Detail): string {
  const endedMs = typeof endedAt === 'string' ? Date.parse(endedAt) : Number.NaN;
  const agoMs = Date.parse(at) - endedMs;
  return agoMs > 0 ? ` ${duration(agoMs)} before` : '';
}

type Detail = Readonly<Record<string, unknown>>;

function detailOf(detail: unknown): Detail {
  return typeof detail === 'object' && detail !== null ? (detail as Detail) : {};
}

function holderOf(event: Told, { holder }: Detail): TextPart {
  return holderPart(event, typeof holder === 'string' && holder !== '' ? holder : event.actor);
}

/** Who asked, where it is not the holder itself. */
function askedBy({ actor, datacenter }: Told, { holder }: Detail): TextPart[] {
  if (typeof holder !== 'string' || holder === '' || holder === actor) return [];
  return [{ text: ', asked for by ' }, nameOf(actor, datacenter)];
}

/** A key is held by a drone; leases and environments by services. */
function holderPart({ face, datacenter }: Told, holder: string): TextPart {
  return face === 'key'
    ? { text: holder, href: routes.drone(holder, datacenter) }
    : { text: holder };
}

function nameOf(actor: string, datacenter: string | undefined): TextPart {
  if (actor === 'leasehold') return { text: 'Leasehold' };
  const droneId = droneOf(actor);
  if (droneId !== undefined) return { text: droneId, href: routes.drone(droneId, datacenter) };
  return { text: actor, isActor: true };
}

function purposeOf({ action, comment }: Detail): string {
  if (typeof action !== 'string' || action === '') return '';
  const said = typeof comment === 'string' && comment !== '' ? `: ${comment}` : '';
  return `, for ${action}${said}`;
}

function modeOf({ mode, abandon }: Detail): string {
  if (abandon === true) return ' by force, without waiting for its backend';
  return mode === 'force' ? ' by force' : mode === 'graceful' ? ' gracefully' : '';
}

function movedTo({ movedTo: toId }: Detail): string | undefined {
  return typeof toId === 'string' ? ` moved the key to the reservation ${toId}` : undefined;
}
