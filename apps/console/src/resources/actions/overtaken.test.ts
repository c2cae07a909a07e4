import { expect, test } from 'vitest';
import { overtakenBy } from './overtaken.ts';

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

test('a grant that had ended before is not overtaken', () => {
  expect(overtakenBy({ ...GRANT, endReason: 'revoked' }, null)).toBeUndefined();
});
