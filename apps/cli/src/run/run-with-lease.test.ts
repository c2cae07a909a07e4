import { userInfo } from 'node:os';
import { expect, test } from 'vitest';
import { ownUserName } from './run-with-lease.ts';

test('a user that the machine has no name for is named by its number', () => {
  const read = (): never => {
    throw new Error(
      'A system error occurred: uv_os_get_passwd returned ENOENT (no such file or directory)',
    );
  };

  expect(ownUserName(read)).toBe(`uid ${String(process.getuid?.())}`);
  expect(ownUserName()).toBe(userInfo().username);
});
