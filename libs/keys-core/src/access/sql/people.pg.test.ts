import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { openKernel } from '../../testing/kernel-fixture.ts';
import type { Store } from '../../postgres/open-store.ts';
import { makeAdmin } from './bootstrap.ts';
import {
  endOtherSessions,
  endSession,
  findPersonSession,
  personSessionsInForce,
  readSessionEpoch,
  removeOldPeopleRows,
} from './sessions.ts';
import { createSessionAuthority, PEOPLE_TOPIC } from '../index.ts';
import { countSignInTry } from './sign-in-failures.ts';

/** Somebody with a session, as if they had signed in. */
async function aSession(store: Store): Promise<{ sessionId: string; token: string }> {
  const email = `${randomUUID()}@example.com`;
  const { personId } = await makeAdmin(store, { email, password: 'a password of theirs' });
  const session = { sessionId: randomUUID(), token: randomUUID() };
  await store.general.$queryRaw`
    insert into person_session (id, person_id, token, expires_at, epoch)
    select ${session.sessionId}::uuid, p.id, ${session.token},
      clock_timestamp() + interval '30 days', p.session_epoch
    from person p
    where p.id = ${personId}::uuid
    returning id::text`;
  return session;
}

async function makeOlder(store: Store, days: number): Promise<void> {
  await store.general.$queryRaw`
    update person_session set seen_at = clock_timestamp() - ${days}::int * interval '1 day'
    returning id::text`;
}

describe('a session', () => {
  test('that is used does not end for idleness', async () => {
    const { store } = await openKernel();
    const { token } = await aSession(store);
    await makeOlder(store, 6);
    const authority = createSessionAuthority(store);

    const before = await authority.authenticate(token);
    await authority.flushSeen();
    store.hints.notify(PEOPLE_TOPIC);
    const after = await authority.authenticate(token);

    const leftDays = (access: typeof before): number =>
      Math.round((Date.parse(access?.expiresAt ?? '') - Date.now()) / 86_400_000);
    expect([leftDays(before), leftDays(after)]).toEqual([1, 7]);
    authority.close();
  });

  test('that has ended is refused at once at the controller that ended it, by the hint', async () => {
    const { store } = await openKernel();
    const { token, sessionId } = await aSession(store);
    const authority = createSessionAuthority(store);
    expect(await authority.authenticate(token)).toMatchObject({ sessionId });

    await endSession(store.general, sessionId);
    store.hints.notify(PEOPLE_TOPIC);

    expect(await authority.authenticate(token)).toBeUndefined();
    authority.close();
  });

  test('that has ended is refused a second later without the hint', async () => {
    const { store } = await openKernel();
    const { token, sessionId } = await aSession(store);
    let nowMs = 0;
    const clock = { ...store.clock, nowMs: () => nowMs };
    const authority = createSessionAuthority({ ...store, clock });
    await authority.authenticate(token);

    await endSession(store.general, sessionId);
    nowMs = 1_000;

    expect(await authority.authenticate(token)).toBeUndefined();
    authority.close();
  });
});

test('a session that begins with the epoch from before all sessions were ended does not count', async () => {
  const { store } = await openKernel();
  const { personId } = await makeAdmin(store, { email: 'ada@example.com', password: 'a password' });
  const epoch = await readSessionEpoch(store.general, 'ada@example.com');
  const beginsLate = (token: string): Promise<unknown> => store.general.$queryRaw`
    insert into person_session (id, person_id, token, expires_at, epoch)
    values (gen_random_uuid(), ${personId}::uuid, ${token},
      clock_timestamp() + interval '30 days', ${epoch})
    returning id::text`;

  await beginsLate('in time');
  const inTime = await findPersonSession(store.general, 'in time');
  await store.general.$transaction((tx) => endOtherSessions(tx, personId, inTime?.sessionId ?? ''));
  await beginsLate('too late');

  expect(await findPersonSession(store.general, 'in time')).toEqual(inTime);
  expect(await findPersonSession(store.general, 'too late')).toBeUndefined();
  const sessions = await store.general.$queryRaw<{ id: string }[]>`
    select s.id::text as id from person_session s`;
  const ids = sessions.map(({ id }) => id);
  expect([...(await personSessionsInForce(store.general, ids)).keys()]).toEqual([
    inTime?.sessionId,
  ]);
});

test('retention removes what has ended, and nothing that counts', async () => {
  const { store } = await openKernel();
  await aSession(store);
  await makeOlder(store, 8);
  const kept = await aSession(store);
  await countSignInTry(store.general, { email: 'old@example.com', from: 'change-password' });
  await store.general.$queryRaw`
    update sign_in_failure set failed_at = clock_timestamp() - interval '61 minutes'
    returning email_hash`;
  await countSignInTry(store.general, { email: 'new@example.com', from: 'change-password' });
  const failures: unknown[] = [];

  await removeOldPeopleRows(store.general, {
    clock: store.clock,
    onFailure: (kind) => failures.push(kind),
  });

  expect(failures).toEqual([]);
  expect(await store.general.$queryRaw`select s.id::text from person_session s`).toEqual([
    { id: kept.sessionId },
  ]);
  expect(
    await store.general.$queryRaw`select f.failure_count as "count" from sign_in_failure f`,
  ).toEqual([{ count: 1 }]);
});
