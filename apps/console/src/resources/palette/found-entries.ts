/** How what was found is shown, and where it leads. Pure. */
import type { BackendStatus, DroneStatus, FoundKind, Phase } from '@leasehold/keys-core';
import {
  type Icon,
  IconBox,
  IconKey,
  IconLockAccess,
  IconServer,
  IconStack2,
  IconTicket,
  IconUser,
} from '@tabler/icons-react';
import { at } from '~/lib/here.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { doneBy } from '~/resources/actor.ts';
import { BACKEND_LOOKS } from '~/resources/backend-looks.ts';
import { DRONE_LOOKS, PHASE_LOOKS } from '~/resources/looks.tsx';
import type { Look } from '~/ui/text.tsx';
import type { FoundItem } from './use-find.ts';

export const KIND_LOOKS: Record<FoundKind, { readonly word: string; readonly icon: Icon }> = {
  key: { word: 'Key', icon: IconKey },
  lease: { word: 'Lease', icon: IconStack2 },
  environment: { word: 'Environment', icon: IconLockAccess },
  drone: { word: 'Drone', icon: IconServer },
  backend: { word: 'Backend', icon: IconBox },
  person: { word: 'Person', icon: IconUser },
  token: { word: 'API token', icon: IconTicket },
};

/** A place that something found leads to, and the word for it at the end of the line. */
interface Place {
  readonly href: string;
  readonly word: string;
  readonly hint: string;
}

/** Where it leads. A person has no page: first what they did, which is asked more often, then their access. */
export function placesOf(item: FoundItem): readonly Place[] {
  const { kind, text } = item;
  const hint = hintOf(item);
  if (kind !== 'person') return [{ href: hrefOf(item), word: KIND_LOOKS[kind].word, hint }];
  return [
    { href: doneBy(text), word: 'What they did', hint },
    { href: hrefOf(item), word: 'Access', hint: '' },
  ];
}

function hrefOf(item: FoundItem): string {
  const { kind, id, text, datacenter } = item;
  if (kind === 'drone') return routes.drone(id, datacenter);
  if (kind === 'backend') return routes.backend(id, datacenter);
  if (kind === 'person') return routes.access({ tab: 'people', q: text });
  if (kind === 'token') return routes.access({ tab: 'tokens', q: text });
  return routeOf(kind, item);
}

/** What stands beside a name: who holds a resource, whose a backend is, a person's role. */
function hintOf({ kind, detail, isLive, name, text, datacenter, by }: FoundItem): string {
  const elsewhere = at(datacenter).datacenter === undefined ? '' : `in ${datacenter}`;
  return [hintWithin(kind, { detail, isLive, name, text }), byText(by), elsewhere]
    .filter(Boolean)
    .join(', ');
}

/** What in the text it was found by, where that is not a name. */
function byText(by: FoundItem['by']): string {
  return by === undefined ? '' : BY_TEXTS[by];
}

const BY_TEXTS: Record<NonNullable<FoundItem['by']>, string> = {
  lease_id: 'found by its lease id',
  ticket: 'found by the ticket of a waiter',
  token: 'found by its token',
  holder: 'found by its holder',
  backend_id: 'found by its id',
  address: 'found by its address',
};

function hintWithin(
  kind: FoundKind,
  { detail, isLive, name, text }: Pick<FoundItem, 'detail' | 'isLive' | 'name' | 'text'>,
): string {
  if (detail === null) return '';
  if (kind === 'backend') return `of ${detail}`;
  if (kind === 'person') return name === text ? detail : `${name}, ${detail}`;
  if (kind === 'token') return detail;
  return isLive ? `by ${detail}` : '';
}

/** The state of what has a page of its own, as it is shown everywhere. */
export function lookOf({ kind, state }: FoundItem): Look | undefined {
  if (kind === 'drone') return DRONE_LOOKS[state as DroneStatus];
  if (kind === 'backend') return BACKEND_LOOKS[state as BackendStatus];
  if (kind === 'person' || kind === 'token') return undefined;
  return PHASE_LOOKS[state as Phase];
}
