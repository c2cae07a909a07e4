import { describe, expect, test } from 'vitest';
import { safePath } from './safe-path.ts';

describe('safePath', () => {
  test('keeps a path of the console, with its query and fragment', () => {
    expect(safePath('/keys/detail?namespace=rooms.eu&name=a%2Fb#ladder')).toBe(
      '/keys/detail?namespace=rooms.eu&name=a%2Fb#ladder',
    );
    expect(safePath('/keys?q=ü x')).toBe('/keys?q=%C3%BC%20x');
  });

  test.each([
    'https://evil.example/',
    '//evil.example/',
    '/\\evil.example/',
    '/\t/evil.example/',
    '/.//evil.example',
    'javascript:alert(1)',
    'keys',
    '',
    null,
    undefined,
  ])('replaces anything else with the start page: %s', (next) => {
    expect(safePath(next)).toBe('/');
  });

  test('does not lead back to the sign-in page', () => {
    expect(safePath('/sign-in?next=/sign-in')).toBe('/');
  });
});
