import { describe, expect, test } from 'vitest';
import {
  actsFor,
  isLastAdmin,
  personActProblem,
  personState,
  resetText,
  roleChangeText,
  roleText,
} from './states.ts';

const NOW_MS = Date.parse('2026-11-21T12:00:00.000Z');

function someone(
  personId: string,
  role: 'admin' | 'viewer',
  status: 'active' | 'disabled' = 'active',
) {
  return { personId, role, status };
}

describe('personState', () => {
  test('is locked until the lock-out ends, and no longer', () => {
    const at = (lockedUntil: string | null) =>
      personState({ status: 'active', lockedUntil }, NOW_MS);

    expect(at('2026-11-21T12:00:00.001Z')).toBe('locked');
    expect(at('2026-11-21T12:00:00.000Z')).toBe('active');
    expect(at(null)).toBe('active');
  });

  test('reports a disabled person as disabled even during a lock-out', () => {
    const lockedUntil = '2026-11-21T13:00:00.000Z';

    expect(personState({ status: 'disabled', lockedUntil }, NOW_MS)).toBe('disabled');
  });
});

describe('isLastAdmin', () => {
  test('counts only administrators who can sign in', () => {
    const ada = someone('ada', 'admin');

    expect(isLastAdmin(ada, [ada, someone('v', 'viewer')], true)).toBe(true);
    expect(isLastAdmin(ada, [ada, someone('off', 'admin', 'disabled')], true)).toBe(true);
    expect(isLastAdmin(ada, [ada, someone('bea', 'admin')], true)).toBe(false);
    expect(isLastAdmin(someone('v', 'viewer'), [ada], true)).toBe(false);
  });

  test('is false for a list that has more pages', () => {
    const ada = someone('ada', 'admin');

    expect(isLastAdmin(ada, [ada], false)).toBe(false);
  });
});

describe('acts on people', () => {
  const person = { personId: 'p', sessionCount: 1 };
  const among = { meId: 'me', isLastAdmin: false, state: 'active' } as const;

  test('offers what the state allows', () => {
    expect(actsFor('disabled')).toEqual(['enable', 'setRole']);
    expect(actsFor('invited')[0]).toBe('invite');
    expect(actsFor('locked')[0]).toBe('unlock');
    expect(actsFor('active')).not.toContain('unlock');
    expect(actsFor('locked')).toContain('resetPassword');
    expect(actsFor('active')).toContain('resetPassword');
    expect(actsFor('invited')).not.toContain('resetPassword');
    expect(actsFor('disabled')).not.toContain('resetPassword');
  });

  test('nobody can remove the last administrator, or disable themselves', () => {
    const last = { ...among, isLastAdmin: true };

    expect(personActProblem('disable', person, last)).toContain('last administrator');
    expect(personActProblem('setRole', person, last)).toContain('last administrator');
    expect(personActProblem('disable', { ...person, personId: 'me' }, among)).toContain('you');
    expect(personActProblem('disable', person, among)).toBeUndefined();
  });

  test('explains that a person has no session to end', () => {
    expect(personActProblem('signOutEverywhere', { ...person, sessionCount: 0 }, among)).toContain(
      'Not signed in',
    );
  });

  test('says what a reset does to the old password, if there is one', () => {
    expect(resetText({ signInMethods: ['password'] })).toContain('old one works until then');
    expect(resetText({ signInMethods: ['oidc'] })).toContain('have no password');
  });

  test('tells an administrator what they give up', () => {
    const admin = { role: 'admin', namespaces: null } as const;
    const viewer = { role: 'viewer', namespaces: null } as const;

    expect(roleChangeText(admin, 'viewer', true)).toContain('not see this page');
    expect(roleChangeText(viewer, 'operator', false)).not.toContain('not see');
  });

  test('shows the limit of a role, and says that it ends with the role', () => {
    const limited = { role: 'operator', namespaces: ['games.eu', 'games.us'] } as const;
    const free = { role: 'operator', namespaces: null } as const;

    expect(roleText(limited)).toBe('Operator in games.eu, games.us');
    expect(roleText(free)).toBe('Operator');
    expect(roleChangeText(limited, 'viewer', false)).toContain(
      'Their limit to games.eu, games.us ends.',
    );
    expect(roleChangeText(free, 'viewer', false)).not.toContain('limit');
    expect(roleChangeText(limited, 'operator', false)).not.toContain('ends');
  });
});
