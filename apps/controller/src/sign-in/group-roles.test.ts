import { peerCallerSchema } from '@leasehold/api/contract';
import { describe, expect, test } from 'vitest';
import { grantOf, groupRulesOf, groupRulesProblem, groupsIn } from './group-roles.ts';

const may = (text: string, ...groups: string[]) => grantOf(groupRulesOf(text), new Set(groups));

describe('the rules of groups', () => {
  const RULES =
    'sre=admin, ops = operator ,eu=client@games.eu+games.uk,us=client@games.us,*=viewer';

  test.each([
    [['sre', 'ops'], { role: 'admin', namespaces: null }],
    [['ops', 'eu'], { role: 'operator', namespaces: null }],
    [['eu'], { role: 'client', namespaces: ['games.eu', 'games.uk'] }],
    [['us', 'eu'], { role: 'client', namespaces: ['games.eu', 'games.uk', 'games.us'] }],
    [['others'], { role: 'viewer', namespaces: null }],
    [[], { role: 'viewer', namespaces: null }],
    [['*'], { role: 'viewer', namespaces: null }],
    [['SRE'], { role: 'viewer', namespaces: null }],
  ])('members of %j are %j', (groups, grant) => {
    expect(groupRulesProblem(RULES)).toBeUndefined();
    expect(may(RULES, ...groups)).toEqual(grant);
  });

  test('without a rule for everybody, members of no group may nothing', () => {
    expect(may('sre=admin', 'ops')).toBeUndefined();
    expect(may('sre=admin')).toBeUndefined();
  });

  test('a rule without namespaces widens one of the same role with some', () => {
    expect(may('a=client@x,b=client', 'a', 'b')).toEqual({ role: 'client', namespaces: null });
  });

  test.each([
    ['/games/ops=operator', '/games/ops'],
    ['CN=ops%2COU=eu=operator', 'CN=ops,OU=eu'],
    ['ops@example.com=operator', 'ops@example.com'],
    ['Site Reliability=operator', 'Site Reliability'],
    ['0f8fad5b-d9cb-469f-a165-70867728950e=operator', '0f8fad5b-d9cb-469f-a165-70867728950e'],
    ['%2A=operator', '*'],
    ['50%25=operator', '50%'],
  ])('%s is about the group %s', (text, group) => {
    expect(groupRulesProblem(text)).toBeUndefined();
    expect(may(text, group)).toEqual({ role: 'operator', namespaces: null });
  });

  test.each([
    ['', /entry 1 must be GROUP=ROLE/u],
    ['ops', /entry 1 must be GROUP=ROLE/u],
    ['=viewer', /entry 1 must be GROUP=ROLE/u],
    ['ops=operator,', /entry 2 must be GROUP=ROLE/u],
    ['a=viewer,ops=root', /entry 2 must have a role of viewer, client, operator, admin/u],
    ['d=drone', /must have a role of/u],
    ['ops=Operator', /must be GROUP=ROLE/u],
    ['sre=admin@games', /must not limit an admin/u],
    ['ops=operator@', /must be GROUP=ROLE/u],
    ['ops=operator@leasehold', /namespace that must not be "leasehold"/u],
    ['ops=operator@a..b', /namespace that/u],
    ['ops=operator@a+', /namespace that/u],
    ['50%=viewer', /%25/u],
    ['a=viewer,a=admin', /entry 2 is about a group that has an entry already/u],
    ['*=viewer,*=client', /entry 2 is about/u],
  ])('%j is refused, and says what is allowed', (text, problem) => {
    expect(groupRulesProblem(text)).toMatch(problem);
  });
});

test('somebody in all groups has no more namespaces than another datacenter accepts', () => {
  const namespaces = Array.from({ length: 1_000 }, (_, index) => `n${String(index)}`);
  const half = [namespaces.slice(0, 600), namespaces.slice(400)].map((some) => some.join('+'));
  const text = half.map((some, index) => `g${String(index)}=client@${some}`).join(',');

  expect(groupRulesProblem(text)).toBeUndefined();
  const accepted = peerCallerSchema.safeParse({
    principal: 'person:p',
    actor: 'alice',
    source: null,
    ...may(text, 'g0', 'g1'),
  });
  expect(accepted.data?.namespaces).toHaveLength(1_000);
  expect(groupRulesProblem(`${text},more=viewer@more`)).toMatch(
    /must name 1000 different namespaces at most/u,
  );
});

describe('the groups of a person', () => {
  test.each([
    [{ groups: ['a', 'b'] }, 'groups', ['a', 'b']],
    [{ groups: 'a' }, 'groups', ['a']],
    [{ realm_access: { roles: ['a'] } }, 'realm_access.roles', ['a']],
    [{ 'https://example.com/groups': ['a'] }, 'https://example.com/groups', ['a']],
    [{ groups: ['a', 7, null, { b: 1 }] }, 'groups', ['a']],
    [{ groups: { a: true } }, 'groups', []],
    [{ groups: null }, 'groups', []],
    [{}, 'groups', []],
    [{}, '__proto__.constructor', []],
  ])('of %j by %s are %j', (claims, claim, groups) => {
    expect([...groupsIn(claims, claim)]).toEqual(groups);
  });
});
