import { describe, expect, test } from 'vitest';
import { routes } from '~/lib/routes.ts';
import { auditTarget, modeOf } from './audit-target.ts';

describe('auditTarget', () => {
  test('names a grant by its key, lease or environment, and links to that', () => {
    const detail = { mode: 'force', face: 'key', namespace: 'rooms.eu', name: 'a&b' };

    expect(auditTarget({ resource: 'lease:0190', detail })).toEqual({
      kind: 'key',
      label: 'rooms.eu/a&b',
      href: '/keys/detail?namespace=rooms.eu&name=a%26b',
    });
    expect(modeOf({ detail })).toBe('force');
  });

  test('links drones, backends, tokens and people to their pages', () => {
    expect(auditTarget({ resource: 'drone:d-1' }).href).toBe('/drones/detail?id=d-1');
    expect(auditTarget({ resource: 'backend:b-1' }).href).toBe('/backends/detail?id=b-1');
    expect(auditTarget({ resource: 'token:t', detail: { name: 'ci' } })).toMatchObject({
      label: 'ci',
      href: '/access',
    });
    expect(auditTarget({ resource: 'person:p', detail: { email: 'a@b.example' } })).toMatchObject({
      label: 'a@b.example',
      href: '/access?tab=people',
    });
  });

  test('links a moved key, and any other reserved list, to its chain', () => {
    const detail = { toDatacenter: 'dc2', reservationId: 'dc2.x' };

    expect(auditTarget({ resource: 'key:rooms.eu/a/b', detail })).toEqual({
      kind: 'reservation',
      label: 'rooms.eu/a/b',
      href: routes.reservation(['rooms.eu', 'a/b']),
    });
    expect(auditTarget({ resource: 'key:rooms%2Feu/a', detail }).href).toBe(
      routes.reservation(['rooms/eu', 'a']),
    );
    expect(auditTarget({ resource: 'key:/root', detail }).href).toBe(
      routes.reservation(['', 'root']),
    );
    expect(auditTarget({ resource: 'reservation:["a/b"]', detail })).toMatchObject({
      label: '["a/b"]',
      href: routes.reservation(['a/b']),
    });
  });

  test('gives names as they are, for what shows the invisible in them', () => {
    const detail = { face: 'key', namespace: 'rooms', name: 'a\u202eb', reservationId: 'dc2.x' };
    expect(auditTarget({ resource: 'lease:0190', detail }).label).toBe('rooms/a\u202eb');
    const moved = auditTarget({
      resource: 'reservation:["a\u200bb"]',
      detail: { reservationId: 'dc2.x' },
    });
    expect(moved.label).toBe('["a\u200bb"]');
  });

  test('shows a token without a name by the end of its id, which others do not share', () => {
    const resource = 'token:0198c0de-1111-7000-8000-00000000000a';
    expect(auditTarget({ resource }).label).toBe('…0000000a');
  });

  test('shows anything else by its id, without a link', () => {
    expect(auditTarget({ resource: 'lease:0190', detail: null })).toEqual({
      kind: 'lease',
      label: '0190',
      href: null,
    });
    expect(auditTarget({ resource: 'everything' }).label).toBe('everything');
  });
});
