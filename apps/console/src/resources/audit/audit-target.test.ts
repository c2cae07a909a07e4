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

  test('shows anything else by its id, without a link', () => {
    expect(auditTarget({ resource: 'lease:0190', detail: null })).toEqual({
      kind: 'lease',
      label: '0190',
      href: null,
    });
    expect(auditTarget({ resource: 'everything' }).label).toBe('everything');
  });
});
