import { describe, expect, test } from 'vitest';
import { boundsInput, NO_BOUNDS } from './token-bounds.ts';

describe('boundsInput', () => {
  const all = {
    ...{ namespaces: ['rooms'], programs: ['room'], addresses: ['10.0.0.0/8'], capacity: 5 },
  };

  test('asks for the bounds that the role has, whatever was filled in for another one', () => {
    expect(boundsInput('viewer', all)).toEqual({ namespaces: ['rooms'] });
    expect(boundsInput('client', all)).toEqual({ namespaces: ['rooms'], programs: ['room'] });
    expect(boundsInput('drone', all)).toEqual({
      ...{ programs: ['room'], addresses: ['10.0.0.0/8'], capacity: 5 },
    });
  });

  test('asks for none where nothing was filled in, and for a capacity of 0 where that was', () => {
    expect(boundsInput('drone', NO_BOUNDS)).toEqual({});
    expect(boundsInput('drone', { ...NO_BOUNDS, capacity: 0 })).toEqual({ capacity: 0 });
  });
});
