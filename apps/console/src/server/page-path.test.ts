import type { IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { notePath } from './page-path.ts';

function noted(url: string, headers: Record<string, string> = {}): unknown {
  const request = { url, headers } as unknown as IncomingMessage;
  notePath(request);
  return request.headers['x-leasehold-path'];
}

describe('notePath', () => {
  test('tells a page its path and query, without what Next adds', () => {
    expect(noted('/keys?q=phase%3Aheld&after=a%2Fb&_rsc=1x2y')).toBe(
      '/keys?q=phase%3Aheld&after=a%2Fb',
    );
    expect(noted('/')).toBe('/');
    expect(noted('/drones?_rsc=1')).toBe('/drones');
  });

  test('replaces a path that the browser claims', () => {
    expect(noted('/keys', { 'x-leasehold-path': '//evil.example' })).toBe('/keys');
  });

  test('survives invalid addresses', () => {
    expect(noted('//')).toBe('//');
    expect(noted('/a?b?c=1')).toBe('/a?b%3Fc=1');
  });
});
