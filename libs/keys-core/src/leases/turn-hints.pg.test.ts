import { randomUUID } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { waitUntil } from '@leasehold/testing';
import { leaseTopic, othersTurnTopic, turnTopic } from '../kernel/resource.ts';
import { acquired, inLine, type Leases, openLeases, released } from '../testing/lease-fixture.ts';

/** Resolves when hints that the one controller sends arrive at the other. */
async function hearing(one: Leases, other: Leases): Promise<void> {
  const arrived = vi.fn();
  const topic = randomUUID();
  const off = other.store.hints.on(topic, arrived);
  await waitUntil(() => {
    one.store.hints.notify(topic);
    return arrived.mock.calls.length > 0;
  });
  off();
}

/** What {@link acquired} acquires. */
const LEASE = { namespace: 'user.update', name: '42' };

test('a release wakes the first in line, and only later the others', async () => {
  const one = await openLeases();
  const two = await openLeases({ databaseUrl: one.databaseUrl });
  const three = await openLeases({ databaseUrl: one.databaseUrl });
  await Promise.all([two, three].map((other) => hearing(one, other)));
  const held = await acquired(one);
  const first = await inLine(two, 'first');
  await inLine(three, 'second');
  const [ticket] = await one.store.general.$queryRaw<{ id: string }[]>`
    select ticket_id as id from lease_waiter where waiter = 'first'`;
  const woken: string[] = [];
  two.store.hints.on(turnTopic(ticket?.id ?? ''), () => woken.push('first'));
  three.store.hints.on(othersTurnTopic(LEASE), () => woken.push('others'));
  three.store.hints.on(leaseTopic(LEASE), () => woken.push('everyone'));

  await released(one, held);

  await expect(first.answer).resolves.toMatchObject({ outcome: 'granted' });
  await waitUntil(() => woken.length > 1);
  expect(woken.toSorted()).toEqual(['first', 'others']);
});
