import { describe, expect, it } from 'vitest';
import { exportAddress } from './export-address.ts';

describe('exportAddress', () => {
  it('asks for all results of the current query, not only for the shown page', () => {
    const input = { limit: 100, cursor: 'abc', prefix: 'room &', includeChildren: true };
    expect(exportAddress('keys', 'csv', input)).toBe(
      '/export/keys?format=csv&prefix=room+%26&includeChildren=true',
    );
  });

  it('joins lists with commas and leaves out undefined values', () => {
    const input = { kinds: ['granted', 'revoked'], face: undefined };
    expect(exportAddress('events', 'json', input)).toBe(
      '/export/events?format=json&kinds=granted%2Crevoked',
    );
  });
});
