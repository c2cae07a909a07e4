import { expect, test } from 'vitest';
import type { EventItem } from '~/resources/timeline/grants-of-events.ts';
import { usesOfEvents } from './uses-of-events.ts';

const event = (fields: Partial<EventItem>): EventItem => ({
  id: '1.1',
  at: '2026-11-21T12:00:00.000Z',
  face: 'environment',
  namespace: 'shop',
  name: 'production',
  leaseId: 'a',
  fencingToken: '7',
  kind: 'granted',
  actor: 'ci',
  reason: null,
  detail: null,
  datacenter: 'fra',
  ...fields,
});

test('a use shows its action and comment, also after it has ended', () => {
  const detail = { holder: 'ci@1', principal: 'p', action: 'deploy', comment: 'CHG-1' };

  const [use] = usesOfEvents(
    [event({ kind: 'released', at: '2026-11-21T12:05:00.000Z' }), event({ detail })],
    { isNewestPage: true },
  );

  expect(use).toMatchObject({
    holder: 'ci@1',
    action: 'deploy',
    comment: 'CHG-1',
    end: { kind: 'released' },
  });
});

test('a field that an event does not have stays null', () => {
  const uses = usesOfEvents(
    [
      event({ leaseId: 'b', detail: { holder: 'ci@2', action: '', comment: null } }),
      event({ leaseId: 'c', kind: 'expired' }),
    ],
    { isNewestPage: true },
  );

  expect(uses).toMatchObject([
    { holder: 'ci@2', action: null, comment: null },
    { holder: null, action: null, comment: null },
  ]);
});
