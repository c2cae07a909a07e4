import { NOTHING_MISSING } from '@leasehold/keys-core';
import { describe, expect, test } from 'vitest';
import { isolationFindings } from './isolation-check.ts';

const drone = { droneId: 'drone-1', status: 'ready' } as const;
const full = {
  user: 'own',
  pidNamespace: true,
  privateProc: true,
  hiddenHome: true,
  noNewPrivs: true,
  detail: NOTHING_MISSING,
} as const;

describe('the doctor on the isolation of a drone', () => {
  test('reports nothing about a machine that provides everything', () => {
    expect(isolationFindings({ ...drone, isolation: full })).toEqual([]);
  });

  test('reports it as wrong when programs can read the token of the drone', () => {
    const isolation = {
      ...full,
      user: 'shared',
      privateProc: false,
      detail: 'missing: x',
    } as const;

    const [finding] = isolationFindings({ ...drone, isolation });

    expect(finding).toMatchObject({ state: 'wrong', subject: 'isolation of drone-1' });
    expect(finding?.text).toMatch(/read its token; missing: x/u);
    expect(finding?.advice).toMatch(/docs\/deployment\.md/u);
  });

  test.each([
    ['users of their own are missing', { ...full, user: 'shared', detail: 'missing: y' } as const],
    ['no_new_privs is missing', { ...full, noNewPrivs: false, detail: 'missing: y' }],
    ['limits are missing', { ...full, detail: 'missing: control groups' }],
    ['something else is said', { ...full, detail: 'no control groups' }],
    ['the drone does not say', null],
  ])('reports it as unsure when %s', (_what, isolation) => {
    expect(isolationFindings({ ...drone, isolation })).toMatchObject([{ state: 'unsure' }]);
  });

  test.each(['lost', 'stopped'] as const)('reports nothing about a drone that is %s', (status) => {
    expect(isolationFindings({ ...drone, status, isolation: null })).toEqual([]);
  });
});
