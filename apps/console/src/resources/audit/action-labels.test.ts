import { AUDIT_ACTIONS } from '@leasehold/keys-core';
import { expect, test } from 'vitest';
import { actionLabel, actionName } from './action-labels.ts';

test('each action has a name of its own, in words', () => {
  const names = AUDIT_ACTIONS.map(actionName);

  expect(new Set(names).size).toBe(names.length);
  expect(names.filter((name) => !/^[A-Z][a-z -]+$/u.test(name))).toEqual([]);
});

test('a list names an action without what the row names, and one of a later version as it is', () => {
  expect(actionLabel('keys.blockRenewal')).toBe('Blocked renewal');
  expect(actionLabel('moons.land')).toBe('moons.land');
});
