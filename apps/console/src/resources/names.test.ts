import { describe, expect, test } from 'vitest';
import { routes } from '~/lib/routes.ts';
import { keyLabel, keyOfAddress } from './names.ts';

const addressed = (key: readonly string[]) =>
  keyOfAddress(new URLSearchParams(routes.reservation(key).split('?')[1]).get('key') ?? '');

describe('a reserved key in an address', () => {
  test.each([
    [['rooms', 'room-1']],
    [['a/b']],
    [['a', 'b']],
    [['', 'root']],
    [['"]&key=["x', '#%2F?', 'عربي', '😀']],
  ])('comes back unchanged: %j', (key) => {
    expect(addressed(key)).toEqual({ key });
  });

  test.each(['', 'rooms', '{"a":1}', '["a",1]', '[]', '[""]'])(
    'says what is wrong with an address that names no key: %s',
    (text) => {
      expect(keyOfAddress(text)).toMatchObject({ problem: expect.stringMatching(/key/) as string });
    },
  );
});

test('a key is shown by its name, and any other list as JSON', () => {
  expect(keyLabel(['rooms.eu', 'standup'])).toBe('rooms.eu/standup');
  expect(keyLabel(['', 'root'])).toBe('root');
  expect(keyLabel(['a/b'])).toBe('["a/b"]');
  expect(keyLabel(['a', 'b', 'c'])).toBe('["a","b","c"]');
});
