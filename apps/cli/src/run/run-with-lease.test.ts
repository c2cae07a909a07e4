import { fileVariableOf, SECRETS } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { accessVariables, commandEnvironment } from './run-with-lease.ts';

const OTHERS = { PATH: '/bin', DATABASE_URL: 'postgresql://db', LEASEHOLD_URL: 'http://c' };
const secrets = SECRETS.filter((name) => name.startsWith('LEASEHOLD_'));
const all = {
  ...OTHERS,
  ...Object.fromEntries(
    secrets.flatMap((name) => [name, fileVariableOf(name)]).map((name) => [name, 'x']),
  ),
};

test('a command under a lease gets no secret of Leasehold, and everything else', () => {
  expect(commandEnvironment(all, { isTokenPassed: false })).toEqual(OTHERS);
});

test('it gets the token, or the file that has it, if that is asked for, and no other secret', () => {
  expect(commandEnvironment(all, { isTokenPassed: true })).toEqual({
    ...OTHERS,
    LEASEHOLD_TOKEN: 'x',
    LEASEHOLD_TOKEN_FILE: 'x',
  });
});

test('with the token of a context it gets neither the context nor the file of another token', () => {
  const from = { urls: 'context staging', token: 'context staging' };
  const own = { ...commandEnvironment(all, { isTokenPassed: true }), LEASEHOLD_CONTEXT: 'staging' };

  const changed = accessVariables({ urls: ['http://a', 'http://b'], token: 'lh_a', from });

  expect({ ...own, ...changed }).toEqual({
    ...OTHERS,
    LEASEHOLD_URL: 'http://a,http://b',
    LEASEHOLD_TOKEN: 'lh_a',
  });
});
