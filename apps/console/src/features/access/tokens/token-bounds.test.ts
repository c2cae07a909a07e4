import { describe, expect, test } from 'vitest';
import { boundsInput, NO_BOUNDS } from './token-bounds.ts';

describe('boundsInput', () => {
  const all = {
    ...{ namespaces: ['rooms'], programs: ['room'], addresses: ['10.0.0.0/8'], capacity: 5 },
  };

  test('sends only the bounds that the role has, even if others were filled in', () => {
    expect(boundsInput('viewer', all)).toEqual({ namespaces: ['rooms'] });
    expect(boundsInput('client', all)).toEqual({ namespaces: ['rooms'], programs: ['room'] });
    expect(boundsInput('drone', all)).toEqual({
      ...{ programs: ['room'], addresses: ['10.0.0.0/8'], capacity: 5 },
    });
  });

  test('sends no bound that was not filled in, but sends a capacity of 0', () => {
    expect(boundsInput('drone', NO_BOUNDS)).toEqual({});
    expect(boundsInput('drone', { ...NO_BOUNDS, capacity: 0 })).toEqual({ capacity: 0 });
  });
});
