import { userInfo } from 'node:os';
import { fileVariableOf, SECRETS } from '@leasehold/service-kit';
import { expect, test } from 'vitest';
import { commandEnvironment, ownUserName } from './run-with-lease.ts';

test('a user that the machine has no name for is named by its number', () => {
  const read = (): never => {
    throw new Error(
      'A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)',
    );
  };

  expect(ownUserName(read)).toBe(`uid ${String(process.getuid?.())}`);
  expect(ownUserName()).toBe(userInfo().username);
});

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
