import { useMantineColorScheme } from '@mantine/core';
import {
  type Icon,
  IconBook2,
  IconBox,
  IconKey,
  IconKeyboard,
  IconLockAccess,
  IconLogout,
  IconMoon,
  IconPlayerPause,
  IconPlayerPlay,
  IconRefresh,
  IconServer,
  IconStack2,
  IconSun,
  IconTicket,
  IconUser,
} from '@tabler/icons-react';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useRouter } from 'next/navigation';
import { useEffect, useState } from 'react';
import type { BackendStatus, DroneStatus, FoundKind, Phase } from '@leasehold/keys-core';
import { type ApiError, type Outputs, query } from '~/lib/api/api.ts';
import { signOut } from '~/lib/auth.ts';
import { useDatacenters } from '~/lib/datacenters.ts';
import { pause } from '~/lib/live/live-state.ts';
import { at, listedDatacenters, routeOf, routes } from '~/lib/routes.ts';
import { useSession } from '~/lib/session.tsx';
import { useSignal } from '~/lib/signal.ts';
import { BACKEND_LOOKS } from '~/resources/backend-looks.ts';
import { DRONE_LOOKS, PHASE_LOOKS } from '~/resources/looks.tsx';
import { doneBy } from '~/resources/names.ts';
import { NAV_GROUPS } from '~/ui/shell/nav.tsx';
import { pageActs } from '~/ui/shell/palette-store.ts';
import type { Look } from '~/ui/text.tsx';
import { openShortcutsHelp } from '~/ui/use-shortcut.ts';

// What the palette lists, and in which order.

/** One line of the palette. */
export interface Entry {
  readonly id: string;
  readonly label: string;
  readonly icon: Icon;
  /** What stands beside the label. */
  readonly hint?: string;
  readonly look?: Look | undefined;
  /** What kind of thing it is, at the end of the line. */
  readonly kind?: string;
  /** Why it cannot be done; it is listed all the same. */
  readonly whyNot?: string | undefined;
  readonly run: () => void;
}

export interface Section {
  readonly label: string;
  readonly entries: readonly Entry[];
}

/** What begins with the text and is known without a search. */
export const KNOWN_LABEL = 'Actions and pages';

/** Everything that may be listed, before the text is considered. */
interface Listed {
  readonly found: readonly Entry[];
  readonly acts: readonly Entry[];
  readonly recent: readonly Entry[];
  readonly pages: readonly Entry[];
  readonly console: readonly Entry[];
}

/**
 * The sections for a text. Without one: what can be done here, what was opened last, and all pages. With
 * one: what is known here and begins with it, which is there at once and does not move; then what was found;
 * then what else contains it.
 */
export function sectionsOf(text: string, listed: Listed): readonly Section[] {
  const { found, acts, recent, pages, console } = listed;
  const wanted = text.trim().toLowerCase();
  if (wanted === '') {
    return withEntries([
      { label: 'This page', entries: acts },
      { label: 'Recent', entries: recent },
      { label: 'Pages', entries: pages },
      { label: 'Console', entries: console },
    ]);
  }
  const known = [...acts, ...pages, ...console];
  const startsWith = ({ label }: Entry): boolean => label.toLowerCase().startsWith(wanted);
  const contains = ({ label }: Entry): boolean => label.toLowerCase().includes(wanted);
  return withEntries([
    { label: KNOWN_LABEL, entries: known.filter(startsWith) },
    { label: 'Found', entries: found },
    {
      label: 'More actions and pages',
      entries: known.filter((entry) => contains(entry) && !startsWith(entry)),
    },
  ]);
}

function withEntries(sections: readonly Section[]): Section[] {
  return sections.filter(({ entries }) => entries.length > 0);
}

/** A label in three parts, of which the middle one is what was searched for; undefined without a match. */
export function partsOf(
  label: string,
  text: string,
): readonly [before: string, match: string, after: string] | undefined {
  const wanted = text.trim().toLowerCase();
  const folded = label.toLowerCase();
  const start = wanted === '' ? -1 : folded.indexOf(wanted);
  // Some letters have more characters in lower case: then places in one text are not those in the other.
  if (start === -1 || folded.length !== label.length) return undefined;
  const end = start + wanted.length;
  return [label.slice(0, start), label.slice(start, end), label.slice(end)];
}

/** All that the palette lists for a text. */
export function usePaletteSections(text: string, found: readonly FoundItem[]): readonly Section[] {
  const router = useRouter();
  const { actor } = useSession();
  const { pages, acts } = useConsoleEntries();
  const onPage = useSignal(pageActs);
  const [recent] = useState(() => readRecent(actor));
  const open = (item: RecentItem): void => {
    addRecent(actor, item);
    router.push(item.href);
  };
  const recentEntry = (item: RecentItem): Entry => ({
    ...entryOf(item),
    id: `recent ${item.href}`,
    run: () => open(item),
  });
  const foundEntries = (item: FoundItem): Entry[] =>
    placesOf(item).map(({ href, word, hint }) => {
      const opened = { kind: item.kind, text: item.text, href, word };
      return {
        ...entryOf(opened),
        id: `${item.kind} ${item.datacenter} ${item.namespace}/${item.id} ${word}`,
        hint,
        look: lookOf(item),
        run: () => open(opened),
      };
    });
  return sectionsOf(text, {
    found: found.flatMap(foundEntries),
    acts: onPage.map((act) => ({ ...act, id: `page ${act.label}` })),
    recent: recent.map(recentEntry),
    pages,
    console: acts,
  });
}

function entryOf({ kind, text, word }: RecentItem): Pick<Entry, 'label' | 'icon' | 'kind'> {
  return { label: text, icon: KIND_LOOKS[kind].icon, kind: word };
}

type ConsoleEntries = Readonly<Record<'pages' | 'acts', readonly Entry[]>>;

/** What the palette can do beside finding things: go to a page, and change the console itself. */
function useConsoleEntries(): ConsoleEntries {
  const router = useRouter();
  const queryClient = useQueryClient();
  const { setColorScheme } = useMantineColorScheme();
  const isPaused = useSignal(pause.isPausedByHand);
  const act = (label: string, icon: Entry['icon'], run: () => void): Entry => ({
    id: `console ${label}`,
    label,
    icon,
    run,
  });
  return {
    pages: NAV_GROUPS.flatMap(({ items }) =>
      items.map(({ label, href, icon }) => ({
        ...act(label, icon, () => router.push(href)),
        kind: 'Page',
      })),
    ),
    acts: [
      act(
        isPaused ? 'Resume live changes' : 'Pause live changes',
        isPaused ? IconPlayerPlay : IconPlayerPause,
        () => pause.isPausedByHand.set(!isPaused),
      ),
      act('Refresh this page', IconRefresh, () => void queryClient.invalidateQueries()),
      act('Light colours', IconSun, () => setColorScheme('light')),
      act('Dark colours', IconMoon, () => setColorScheme('dark')),
      act('Documentation', IconBook2, () => window.location.assign(routes.documentation)),
      act('Keyboard shortcuts', IconKeyboard, openShortcutsHelp),
      act('Sign out', IconLogout, () => void signOut()),
    ],
  };
}

// How what was found is shown, and where it leads.

const KIND_LOOKS: Record<FoundKind, { readonly word: string; readonly icon: Icon }> = {
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
function placesOf(item: FoundItem): readonly Place[] {
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
function lookOf({ kind, state }: FoundItem): Look | undefined {
  if (kind === 'drone') return DRONE_LOOKS[state as DroneStatus];
  if (kind === 'backend') return BACKEND_LOOKS[state as BackendStatus];
  if (kind === 'person' || kind === 'token') return undefined;
  return PHASE_LOOKS[state as Phase];
}

type Answer = Outputs['search']['find'];
type FoundItem = Answer['items'][number];

/** An answer, and the text that it is for. */
export interface AnsweredText {
  readonly text: string;
  readonly answer: Answer;
}

const FOUND_MAX = 20;

/** The newest answer to a search: that to the text before, until the one to this text is there. */
export function useFind(text: string): {
  readonly last: AnsweredText | null;
  readonly isSearching: boolean;
  readonly error: ApiError | null;
  readonly retry: () => void;
} {
  const { isSeveral } = useDatacenters();
  const input = { text, limit: FOUND_MAX, ...listedDatacenters(null, isSeveral) };
  const read = useQuery({
    ...query('search', 'find', input),
    enabled: text !== '',
    retry: false,
    refetchOnWindowFocus: false,
  });
  const [last, setLast] = useState<AnsweredText | null>(null);
  const { data } = read;
  useEffect(() => {
    if (text === '') setLast(null);
    else if (data !== undefined) setLast({ text, answer: data });
  }, [text, data]);
  return {
    last,
    isSearching: read.isFetching,
    error: read.error,
    retry: () => void read.refetch(),
  };
}

/** What a search did not cover, in words; undefined if it covered everything. */
export function uncoveredText({ failed, isComplete, unreachable }: Answer): string | undefined {
  const texts = [
    ...unreachable.map(({ datacenter }) => `${datacenter} was not searched: it did not answer.`),
    ...(failed.length === 0 ? [] : [`Not searched: ${failed.join(', ')}.`]),
    ...(isComplete ? [] : ['Not all names were searched.']),
  ];
  return texts.length === 0 ? undefined : texts.join(' ');
}

/** What became of a search that has no answer. */
export function failureText({ message }: ApiError): string {
  return `The search failed: ${message}`;
}

// What was opened from the palette last, in this browser.

interface RecentItem {
  readonly kind: FoundKind;
  readonly text: string;
  readonly href: string;
  /** What kind of page that is. */
  readonly word: string;
}

const STORED = 'leasehold.recent';
const RECENT_MAX = 8;

interface Stored {
  /** Another person at the same browser does not see them. */
  readonly actor: string;
  readonly items: readonly RecentItem[];
}

function readRecent(actor: string): readonly RecentItem[] {
  try {
    const stored = JSON.parse(window.localStorage.getItem(STORED) ?? 'null') as Stored | null;
    return stored?.actor === actor ? [...stored.items] : [];
  } catch {
    return [];
  }
}

function addRecent(actor: string, item: RecentItem): void {
  const others = readRecent(actor).filter(({ href }) => href !== item.href);
  const items = [item, ...others].slice(0, RECENT_MAX);
  try {
    window.localStorage.setItem(STORED, JSON.stringify({ actor, items } satisfies Stored));
  } catch {
    // Without storage nothing is remembered.
  }
}
