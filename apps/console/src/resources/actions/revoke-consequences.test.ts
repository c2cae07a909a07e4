import { serviceLadder } from '@leasehold/keys-core';
import { describe, expect, it, test } from 'vitest';
import { heldKeyForTest } from '~/resources/grant-for-test.ts';
import { consequencesOf, overtakenBy, stoppedWithinMs } from './revoke-consequences.ts';

const NOW_MS = Date.parse('2026-11-21T14:00:20.000Z');

const KEY = heldKeyForTest();

describe('stoppedWithinMs', () => {
  it('is the full time to the hard rung while a renewal may come just before the act', () => {
    expect(stoppedWithinMs(KEY, NOW_MS)).toBe(50_000);
  });

  it('is the time left until the hard rung if the grant will not be renewed', () => {
    expect(stoppedWithinMs({ ...KEY, renewable: false }, NOW_MS)).toBe(30_000);
    expect(stoppedWithinMs({ ...KEY, renewable: false }, NOW_MS + 60_000)).toBe(0);
  });
});

describe('consequencesOf', () => {
  it('says who holds a key, when its backend is killed, and that nobody gets it before', () => {
    const plan = { face: 'key', grant: KEY, mode: 'graceful', isAbandoned: false } as const;
    const { holder, steps, worstCase } = consequencesOf(plan, NOW_MS);
    expect(holder).toContain('Drone drone-1');
    expect(holder).toContain('bk-1 (ready)');
    expect(steps.join(' ')).toMatch(/SIGTERM now, and SIGKILL 10 s later/u);
    expect(worstCase).toContain('within 50 s at worst');
  });

  it('says how long a forced key is held back, and that two backends may run if it is abandoned', () => {
    const plan = { face: 'key', grant: KEY, mode: 'force', isAbandoned: false } as const;
    expect(consequencesOf(plan, NOW_MS).steps.join(' ')).toContain('or 1 min have passed');
    const abandoned = consequencesOf({ ...plan, isAbandoned: true }, NOW_MS);
    expect(abandoned.steps.join(' ')).toContain('two backends may run');
  });

  it('says that the holder of a forced lease may continue until its own deadline', () => {
    const grant = { ...KEY, holder: 'ledger@1', ladder: serviceLadder(60_000) };
    const plan = { face: 'lease', grant, mode: 'force', isAbandoned: false } as const;
    const { holder, steps } = consequencesOf(plan, NOW_MS);
    expect(holder).toBe('ledger@1 holds it, with token 5.');
    expect(steps.join(' ')).toContain('may continue for 50 s');
  });

  it('says what an environment is used for, with the comment, and who waits for it', () => {
    const use = { holder: 'ci@9', action: 'deploy', comment: 'hotfix\u202e 7', waiters: 2 };
    const plan = { face: 'environment', mode: 'force', isAbandoned: false } as const;
    const { holder, context } = consequencesOf({ ...plan, grant: { ...KEY, ...use } }, NOW_MS);
    expect(holder).toBe('ci@9 holds it for deploy, with token 5.');
    expect(context).toEqual(['Comment: “hotfix\\u{202e} 7”', '2 waiting for it.']);
  });
});

const GRANT = {
  leaseId: 'l-1',
  holder: 'drone-fra-1',
  phase: 'held',
  renewable: true,
  endReason: null,
  releasedAt: null,
  backendStatus: 'ready',
} as const;

test('a dialog notices what others have done to its grant since it was opened', () => {
  expect(overtakenBy(GRANT, GRANT)).toBeUndefined();
  expect(overtakenBy(GRANT, undefined)).toBeUndefined();
  expect(overtakenBy(GRANT, null)).toMatchObject({ isOver: true });
  expect(overtakenBy(GRANT, { ...GRANT, endReason: 'revoked' })).toEqual({
    text: 'Another person has revoked it meanwhile.',
    isOver: true,
  });
  expect(overtakenBy(GRANT, { ...GRANT, releasedAt: '2026-11-27T12:00:00Z' })?.isOver).toBe(true);
  expect(overtakenBy(GRANT, { ...GRANT, leaseId: 'l-2', holder: 'drone-ams-1' })?.text).toContain(
    'drone-ams-1 has the next one',
  );
});

test('what only makes an act needless does not forbid it', () => {
  expect(overtakenBy(GRANT, { ...GRANT, backendStatus: 'terminating' })?.isOver).toBe(false);
  expect(overtakenBy(GRANT, { ...GRANT, renewable: false })?.text).toContain('blocked its renewal');
});

test('what comes of an act of this dialog is not taken for that of another person', () => {
  const changes = [
    { endReason: 'revoked' },
    { backendStatus: 'terminating' },
    { renewable: false },
  ] as const;
  for (const change of changes) {
    const latest = { ...GRANT, ...change };
    expect(overtakenBy(GRANT, latest, 'pending')).toBeUndefined();
    // The dialog stays until the page has been read again.
    expect(overtakenBy(GRANT, latest, 'success')).toBeUndefined();
    const others = overtakenBy(GRANT, latest, 'idle');
    const failed = overtakenBy(GRANT, latest, 'error');
    expect(others?.text).toMatch(/another person/iu);
    expect(failed?.text).toMatch(/meanwhile, perhaps by this\.$/u);
    expect(failed?.isOver).toBe(others?.isOver);
  }
  const blocked = { ...GRANT, renewable: false };
  expect(overtakenBy(blocked, GRANT, 'error')?.text).toBe(
    'Its renewal has been allowed again meanwhile.',
  );
});

test('a grant that had ended before is not overtaken', () => {
  expect(overtakenBy({ ...GRANT, endReason: 'revoked' }, null)).toBeUndefined();
});
