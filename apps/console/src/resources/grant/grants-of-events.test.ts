import { describe, expect, it } from 'vitest';
import {
  actText,
  barOf,
  endText,
  type EventItem,
  grantsOfEvents as grantsOf,
  storyOf,
  type HeldBySeveral,
} from './grants-of-events.ts';

let nextId = 1;

function event(kind: EventItem['kind'], leaseId: string, changes: Partial<EventItem> = {}) {
  const id = nextId++;
  return {
    id: String(id),
    at: new Date(Date.parse('2026-11-21T14:00:00Z') + id * 1_000).toISOString(),
    face: 'key',
    namespace: '',
    name: 'room-1',
    leaseId,
    fencingToken: '7',
    kind,
    actor: 'web',
    reason: null,
    detail: null,
    datacenter: 'local',
    ...changes,
  } satisfies EventItem;
}

const grantsOfEvents = (events: EventItem[]) => grantsOf(events, { isNewestPage: true });
const newestFirst = (...events: EventItem[]): EventItem[] => events.toReversed();

describe('grantsOfEvents', () => {
  it('of what several hold at once, none ends because the next begins; one that is not held has run out', () => {
    const events = newestFirst(
      event('granted', 'a'),
      event('granted', 'b'),
      event('granted', 'c'),
      event('released', 'b'),
      event('granted', 'd'),
    );

    const held = { leaseIds: ['c', 'd'], isWhole: true, asOf: event('granted', 'x').at };
    const story = (isNewestPage: boolean, of: Partial<HeldBySeveral> = {}) =>
      grantsOf(events, { isNewestPage, held: { ...held, ...of } }).map(storyOf);

    expect(story(true)).toEqual(['Current', 'Released by web', 'Current', 'Expired']);
    expect(story(false).at(-1)).toBe('Its end is on a newer page');
  });

  it('of what so many hold that only some are known, none of the others has run out', () => {
    const asOf = event('granted', 'a').at;
    const events = newestFirst(event('granted', 'a', { at: asOf }), event('granted', 'later'));
    const held = (isWhole: boolean) => ({ leaseIds: [], isWhole, asOf });

    const ends = (isWhole: boolean) =>
      grantsOf(events, { isNewestPage: true, held: held(isWhole) }).map(
        ({ leaseId, isLasting, end }) => [leaseId, isLasting, end?.kind],
      );

    expect(ends(false)).toEqual([
      ['later', true, undefined],
      ['a', false, undefined],
    ]);
    expect(ends(true)).toEqual([
      ['later', true, undefined],
      ['a', false, 'expired'],
    ]);
  });

  it('makes one grant of its events, from who got it to how it ended', () => {
    const granted = event('granted', 'a', { detail: { holder: 'drone-1', principal: 'x' } });
    const blocked = event('renewal_blocked', 'a', { actor: 'ada', reason: 'old image' });
    const released = event('released', 'a', { actor: 'drone:drone-1' });
    const [grant] = grantsOfEvents(newestFirst(granted, blocked, released));
    expect(grant).toMatchObject({
      fencingToken: '7',
      holder: 'drone-1',
      from: granted.at,
      to: released.at,
      end: { kind: 'released', actor: 'drone:drone-1' },
      acts: [{ kind: 'renewal_blocked', actor: 'ada', reason: 'old image' }],
    });
  });

  it('shows what an environment was used for, also after its use has ended', () => {
    const detail = { holder: 'ci@1', action: 'deploy', comment: 'CHG-1' };
    const events = newestFirst(
      event('granted', 'a', { detail: { holder: 'ci@0', action: '', comment: null } }),
      event('released', 'a'),
      event('granted', 'b', { detail }),
      event('released', 'b'),
    );

    expect(grantsOfEvents(events)).toMatchObject([
      { ...detail, end: { kind: 'released' } },
      { holder: 'ci@0', action: null, comment: null },
    ]);
  });

  it('does not take a graceful revoke for the end of the grant', () => {
    const granted = event('granted', 'a');
    const revoked = event('revoked', 'a', { detail: { mode: 'graceful' } });
    const [grant] = grantsOfEvents(newestFirst(granted, revoked));
    expect(grant).toMatchObject({ to: null, end: null, acts: [{ kind: 'revoked' }] });
  });

  it('ends a grant at a forced revoke, and shows the token that its holder has', () => {
    const granted = event('granted', 'a', { fencingToken: '7' });
    const revoked = event('revoked', 'a', { fencingToken: '8', detail: { mode: 'force' } });
    const released = event('released', 'a', { fencingToken: '8' });
    const [grant] = grantsOfEvents(newestFirst(granted, revoked, released));
    expect(grant).toMatchObject({ fencingToken: '7', to: revoked.at, end: { kind: 'revoked' } });
  });

  it('keeps the newest grant first, and says which were taken over', () => {
    const events = newestFirst(
      event('granted', 'a'),
      event('expired', 'a', { actor: 'leasehold' }),
      event('taken_over', 'b'),
    );
    const grants = grantsOfEvents(events);
    expect(grants.map(({ leaseId, isTakeover }) => [leaseId, isTakeover])).toEqual([
      ['b', true],
      ['a', false],
    ]);
  });

  it('marks only the newest grant as lasting', () => {
    const newer = event('granted', 'b');
    const older = event('granted', 'a');
    const [first, second] = grantsOfEvents([newer, older]);
    expect([first?.isLasting, second?.isLasting]).toEqual([true, false]);
    expect(second?.to).toBe(newer.at);
    const [onLaterPage] = grantsOf([older], { isNewestPage: false });
    expect(onLaterPage?.isLasting).toBe(false);
    expect(onLaterPage && storyOf(onLaterPage)).toBe('Its end is on a newer page');
  });

  it('does not invent the beginning of a grant that lies on an older page', () => {
    const [grant] = grantsOfEvents([event('released', 'a')]);
    expect(grant).toMatchObject({ holder: null, from: null });
  });
});

describe('texts', () => {
  it('say who ended a grant and why, and name nobody for an expiry', () => {
    const end = { isAbandoned: false, reason: null };
    expect(endText({ ...end, kind: 'expired', actor: 'leasehold' })).toBe('Expired');
    expect(endText({ ...end, kind: 'released', actor: 'drone:drone-1' })).toBe(
      'Released by drone-1',
    );
    expect(endText({ kind: 'revoked', actor: 'ada', reason: 'moved', isAbandoned: true })).toBe(
      'Revoked by force by ada, abandoned: moved',
    );
    expect(actText({ kind: 'revoked', at: '', actor: 'ada', reason: 'moved' })).toBe(
      'Revoked gracefully by ada: moved',
    );
  });
});

describe('barOf', () => {
  const axis = { fromMs: 0, toMs: 10_000 };
  it('covers the time of the grant, and reaches the end of the axis while it lasts', () => {
    const at = (ms: number): string => new Date(ms).toISOString();
    expect(barOf({ from: at(2_500), to: at(7_500) }, axis)).toEqual({ start: 0.25, length: 0.5 });
    expect(barOf({ from: at(8_000), to: null }, axis).start).toBe(0.8);
    expect(barOf({ from: null, to: at(1_000) }, axis)).toEqual({ start: 0, length: 0.1 });
  });
});
