import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search/search.ts';
import { AUDIT_FIELDS, auditListInput, fromInput, spanText, toInput } from './audit-search.ts';

const NO_FILTERS = { action: null, from: null, to: null, after: null };

describe('auditListInput', () => {
  test('takes a bare word for what an act was done to', () => {
    const search = parseSearch('actor:omar@example.com q4-roadmap', AUDIT_FIELDS);

    expect(auditListInput({ ...NO_FILTERS, search, action: 'keys.revoke' })).toEqual({
      limit: 100,
      actor: 'omar@example.com',
      action: 'keys.revoke',
      resource: 'q4-roadmap',
    });
  });

  test('takes ids with a colon whole', () => {
    const search = parseSearch('resource:drone:d-1', AUDIT_FIELDS);

    expect(auditListInput({ ...NO_FILTERS, search })).toMatchObject({ resource: 'drone:d-1' });
  });

  test('asks for a span, and leaves out an invalid instant', () => {
    const search = parseSearch('', AUDIT_FIELDS);
    const from = '2026-11-21T10:00Z';

    expect(auditListInput({ ...NO_FILTERS, search, from, to: 'tomorrow' })).toEqual({
      limit: 100,
      from: '2026-11-21T10:00:00.000Z',
    });
    expect(auditListInput({ ...NO_FILTERS, search, to: '2026-13-45T10:00Z' })).toEqual({
      limit: 100,
    });
  });
});

describe('instants of the address and of an input', () => {
  test('are the same time, in UTC', () => {
    const instant = fromInput('2026-11-21T10:05');

    expect(instant).toBe('2026-11-21T10:05:00.000Z');
    expect(toInput(instant)).toBe('2026-11-21T10:05');
    expect(fromInput('')).toBeNull();
  });

  test('a span is shown with its bounds', () => {
    const from = '2026-11-21T10:05:00.000Z';

    expect(spanText(null, null)).toBe('Any time');
    expect(spanText(from, null)).toBe('since 2026-11-21 10:05');
    expect(spanText(null, from)).toBe('before 2026-11-21 10:05');
    expect(spanText(from, '2026-11-21T11:00:00.000Z')).toBe('2026-11-21 10:05 – 2026-11-21 11:00');
  });
});
