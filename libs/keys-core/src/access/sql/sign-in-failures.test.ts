import { expect, test } from 'vitest';
import { sourceOfTries } from './sign-in-failures.ts';

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['2001:db8:0:1::5', '2001:db8:0:1::/64'],
  ['2001:0db8:0000:0001:aaaa:bbbb:cccc:dddd', '2001:db8:0:1::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  [null, 'unknown'],
])('tries from %s count as those of %s', (address, source) => {
  expect(sourceOfTries({ address })).toBe(source);
});
