import { expect, test } from 'vitest';
import { shownUrl } from './logger.ts';

test.each([
  ['postgresql://me:hunter2@db:5432/x', 'postgresql://me:***@db:5432/x'],
  ['postgresql://me:hunter2@db/x?password=hunter3&schema=s', 'postgresql://me:***@db/x?…'],
  ['postgresql:///x?user=me&password=hunter2&host=/run', 'postgresql:///x?…'],
  ['https://:hunter2@etcd:2379', 'https://:***@etcd:2379'],
  ['https://me:hunter2@a/b/#hunter3', 'https://me:***@a/b'],
  ['hunter2 is no URL', '(not a URL)'],
])('%s is shown without its password', (text, shown) => {
  expect(shownUrl(text)).toBe(shown);
});

test.each(['postgresql://me@db/x', 'https://etcd:2379', 'https://a/b/'])(
  'a URL without a password is shown as it is: %s',
  (text) => {
    expect(shownUrl(text)).toBe(text);
  },
);
