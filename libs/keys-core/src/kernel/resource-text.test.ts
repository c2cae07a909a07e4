import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { seed } from '@leasehold/testing/chance';
import { parseResourceText, resourceText } from './resource.ts';

/** Texts full of the characters that the form itself uses. */
const part = fc.string({ unit: fc.constantFrom('a', '.', '/', '%', '2', '5', 'F', '%2F', '%25') });

describe('resourceText', () => {
  test('gives no two resources the same text: each is read back unchanged', () => {
    fc.assert(
      fc.property(part, part, (namespace, name) => {
        const resource = { namespace, name };
        expect(parseResourceText(resourceText(resource))).toEqual(resource);
      }),
      { seed: seed(), numRuns: 1_000 },
    );
  });

  test.each([
    ['user.update/42', { namespace: 'user.update', name: '42' }],
    ['prod', { namespace: '', name: 'prod' }],
    ['rooms/a/b', { namespace: 'rooms', name: 'a/b' }],
    ['/etc/passwd', { namespace: '', name: 'etc/passwd' }],
    ['user.a%2Fb/k', { namespace: 'user.a/b', name: 'k' }],
    ['user.a/b/k', { namespace: 'user.a', name: 'b/k' }],
    ['100%/50%2F', { namespace: '100%', name: '50%2F' }],
    ['a%252F/k', { namespace: 'a%2F', name: 'k' }],
  ])('writes %s', (text, resource) => {
    expect(resourceText(resource)).toBe(text);
    expect(parseResourceText(text)).toEqual(resource);
  });
});
