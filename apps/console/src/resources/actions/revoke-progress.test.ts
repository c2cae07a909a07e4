import { describe, expect, it } from 'vitest';
import { type Answered, lastWhole } from '~/ui/states.tsx';
import { grantIn } from './latest-grant.ts';
import { overtakenBy } from './revoke-consequences.ts';
import { elapsedText, type FollowedRevoke, revokeProgress } from './revoke-progress.ts';

const AT_MS = Date.parse('2026-11-21T14:00:00.000Z');
const iso = (afterMs: number): string => new Date(AT_MS + afterMs).toISOString();

const KEY: FollowedRevoke = {
  isOneOfSeveral: false,
  face: 'key',
  namespace: 'rooms',
  name: 'room-1',
  leaseId: 'a',
  fencingToken: '5',
  backendId: 'bk-1',
  mode: 'graceful',
  outcome: 'revoking',
  requestedAt: iso(0),
  stopsBy: iso(60_000),
};

const LEASE: FollowedRevoke = { ...KEY, face: 'lease', backendId: null };
const HELD = {
  leaseId: 'a',
  fencingToken: '5',
  endReason: null,
  releasedAt: null,
  phase: 'expiring',
  renewable: false,
  expiresAt: iso(60_000),
  asOf: iso(100),
} as const;

const doneOf = (...of: Parameters<typeof revokeProgress>): string[] =>
  revokeProgress(...of).stages.flatMap(({ label, isDone }) => (isDone ? [label] : []));

describe('revokeProgress of a key', () => {
  it('goes from requested to acknowledged to stopped with its backend', () => {
    const ready = { status: 'ready', states: [{ status: 'ready', at: iso(-5_000) }] } as const;
    const stopping = {
      status: 'terminating',
      states: [...ready.states, { status: 'terminating', at: iso(300) }],
    } as const;
    const gone = {
      status: 'terminated',
      states: [...stopping.states, { status: 'terminated', at: iso(2_000) }],
    } as const;
    expect(doneOf(KEY, {}, AT_MS)).toEqual(['Requested']);
    expect(doneOf(KEY, { backend: ready }, AT_MS)).toEqual(['Requested']);
    expect(doneOf(KEY, { backend: stopping }, AT_MS + 400)).toEqual(['Requested', 'Acknowledged']);
    const over = revokeProgress(KEY, { backend: gone }, AT_MS + 9_000);
    expect(over).toMatchObject({ isOver: true, elapsedMs: 2_000, worstCaseMs: null });
    expect(elapsedText(over)).toBe('took 2 s');
  });

  it('says how long it can take at most, and is over by then in any case', () => {
    const waiting = revokeProgress(KEY, {}, AT_MS + 12_000);
    expect(elapsedText(waiting)).toBe('for 12 s · stops within 48 s at worst');
    expect(revokeProgress(KEY, {}, AT_MS + 60_000).isOver).toBe(true);
  });

  it('waits for a backend that is stopping, even if renewal was allowed again', () => {
    const grant = { ...HELD, phase: 'held', renewable: true } as const;
    const stopping = { status: 'terminating', states: [] } as const;
    const late = revokeProgress(KEY, { grant, backend: stopping }, AT_MS + 61_000);
    expect(late).toMatchObject({ isOver: false, isUndone: false });
    const ready = { status: 'ready', states: [] } as const;
    expect(revokeProgress(KEY, { grant, backend: ready }, AT_MS + 61_000).isUndone).toBe(true);
  });

  it('names the token of the next grant', () => {
    const grant = { ...HELD, leaseId: 'b', fencingToken: '9', phase: 'held' } as const;
    expect(revokeProgress(KEY, { grant }, AT_MS).text).toContain('granted again, with token 9');
  });
});

describe('revokeProgress of a lease', () => {
  it('is over when a gracefully revoked lease was released, ran out, or has another holder', () => {
    expect(doneOf(LEASE, { grant: HELD }, AT_MS)).toEqual(['Requested', 'Renewal blocked']);
    const ends = [
      { ...HELD, releasedAt: iso(500), endReason: 'released' },
      { ...HELD, phase: 'expired' },
      { ...HELD, leaseId: 'b' },
      null,
    ] as const;
    for (const grant of ends) expect(revokeProgress(LEASE, { grant }, AT_MS).isOver).toBe(true);
  });

  it('has not ended a lease whose renewal was allowed again, before its time and after', () => {
    const allowed = { ...HELD, phase: 'held', renewable: true } as const;
    const renewed = { ...HELD, phase: 'held', expiresAt: iso(90_000), asOf: iso(70_000) } as const;
    for (const [grant, afterMs] of [
      [allowed, 1_000],
      [allowed, 61_000],
      [renewed, 70_000],
    ] as const) {
      const progress = revokeProgress(LEASE, { grant }, AT_MS + afterMs);
      expect(progress).toMatchObject({ isOver: false, isUndone: true, worstCaseMs: null });
      expect(progress.text).toContain('allowed again');
    }
  });

  it('is not over because its datacenter does not answer', () => {
    const own = { ...HELD, holder: 'worker-1' };
    const after = (
      answer: { items: readonly (typeof own)[] } & Answered,
      before?: typeof answer,
    ): typeof own | null | undefined => grantIn(lastWhole(answer, before));
    const held = { items: [own] };
    const silent = { items: [], unreachable: [{ datacenter: 'dc2', since: null, code: null }] };

    expect(after(silent, held)).toEqual(own);
    for (const grant of [after(silent, held), after(silent)]) {
      expect(revokeProgress(LEASE, { grant }, AT_MS).isOver).toBe(false);
      expect(overtakenBy(own, grant)).toBeUndefined();
    }
    expect(after({ items: [], unreachable: [] }, held)).toBeNull();
  });

  it('is not undone by what was read before it', () => {
    const before = { ...HELD, phase: 'held', renewable: true, asOf: iso(-100) } as const;
    expect(revokeProgress(LEASE, { grant: before }, AT_MS)).toMatchObject({ isUndone: false });
  });

  it('does not claim that the holder of a forced lease has stopped before its own deadline', () => {
    const forced: FollowedRevoke = { ...LEASE, mode: 'force', outcome: 'revoked' };
    const grant = { ...HELD, endReason: 'revoked', phase: 'free' } as const;
    expect(revokeProgress(forced, { grant }, AT_MS + 1_000).isOver).toBe(false);
    expect(revokeProgress(forced, { grant }, AT_MS + 60_000).isOver).toBe(true);
  });
});
