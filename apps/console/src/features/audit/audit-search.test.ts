import { describe, expect, test } from 'vitest';
import { auditListInput, parseAuditSearch } from './searches.ts';

const NO_FILTERS = {
  q: '',
  action: null,
  show: null,
  after: null,
  range: null,
  from: null,
  to: null,
};

describe('the search of the audit', () => {
  test.each([
    ['', {}],
    ['boards.eu/q4-road', { text: 'boards.eu/q4-road' }],
    ['customer  waits', { text: 'customer waits' }],
    ['"two words"', { text: 'two words' }],
    ['actor:omar@example.com does not', { actor: 'omar@example.com', text: 'does not' }],
    ['actor:"ci runner"', { actor: 'ci runner' }],
    ['resource:drone:d-1', { resource: 'drone:d-1' }],
    ['factor:9', { text: 'factor:9' }],
    ['actor:""', {}],
  ])('%j', (q, wanted) => {
    expect(parseAuditSearch(q)).toEqual(wanted);
  });
});

describe('auditListInput', () => {
  test('asks for what operators did, unless sign-ins or an action are wanted', () => {
    const signIns = (change: object): unknown =>
      auditListInput({ ...NO_FILTERS, ...change }).signIns;

    expect(signIns({})).toBe(false);
    expect(signIns({ show: 'sign-ins' })).toBe(true);
    expect(signIns({ show: 'all' })).toBeUndefined();
    expect(signIns({ show: 'toString' })).toBe(false);
    expect(signIns({ action: 'people.signIn' })).toBeUndefined();
  });

  test('takes the text, the action and the time', () => {
    const q = 'actor:omar@example.com q4-roadmap';

    expect(auditListInput({ ...NO_FILTERS, q, action: 'keys.revoke', range: '1h' })).toEqual({
      limit: 100,
      actor: 'omar@example.com',
      text: 'q4-roadmap',
      action: 'keys.revoke',
      windowMinutes: 60,
    });
  });
});
