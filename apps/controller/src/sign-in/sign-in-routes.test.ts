import { expect, test } from 'vitest';
import { isOwnPath, landingOf } from './sign-in-routes.ts';

const MAIN = 'https://console.example';

test('a path of the console is kept', () => {
  for (const path of ['/', '/keys?phase=held', '/keys?from=//a', '/a//b', '/a/./b']) {
    expect(isOwnPath(path)).toBe(true);
  }
  expect(landingOf(new URL('/keys?from=//a', MAIN))).toBe('/keys?from=//a');
  expect(landingOf(new URL('/a/../b', MAIN))).toBe('/b');
});

test.each([
  '/.//evil.example',
  '/..//evil.example',
  '/a/..//evil.example',
  '/%2e//evil.example',
  '/.\\/evil.example',
  '/.///evil.example',
])('a path that a browser reads as another host is replaced by `/`: %s', (path) => {
  expect(isOwnPath(path)).toBe(false);
  expect(landingOf(new URL(path, MAIN))).toBe('/');
});

test('a text that is no path is no page of the console', () => {
  for (const text of ['', 'keys', '//evil.example', '/\\evil.example', 'https://evil.example/']) {
    expect(isOwnPath(text)).toBe(false);
  }
});
