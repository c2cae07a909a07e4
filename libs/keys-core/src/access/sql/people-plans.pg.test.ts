import { expect, onTestFinished, test } from 'vitest';
import { fillDatabase } from '../../testing/explaining.ts';
import { openKernel } from '../../testing/kernel-fixture.ts';
import { acceptInvitation, isInvitationOpen, listPeople, openPasswordReset } from './people.ts';
import { endSessionsOf, findPersonSession, personSessionsInForce } from './sessions.ts';
import { readPasswordHash } from './accounts.ts';
import { countSignInTry, forgetSignInFailures, takeBackSignInTry } from './sign-in-failures.ts';

const TRIED_AT = { email: 'a@example.com', from: { address: '192.0.2.1' } };
const PEOPLE = 5_000;
const ID = '00000000-0000-4000-8000-000000000000';

/** Many people with a password, a session and a failure each. */
const FILL = `
    insert into person (id, email, name, joined_at)
    select gen_random_uuid(), 'p' || i || '@example.com', 'p', now()
    from generate_series(1, ${String(PEOPLE)}) i;
    insert into person_account (id, person_id, provider_id, account_id, password)
    select gen_random_uuid(), id, 'credential', id::text, 'x' from person;
    insert into person_session (id, person_id, token, expires_at)
    select gen_random_uuid(), id, id::text, now() + interval '30 days' from person;
    insert into sign_in_failure (email_hash, failure_count, failed_at)
    select encode(sha256(convert_to(email, 'UTF8')), 'hex'), 1, now() from person`;

test('no statement of a request or a sign-in reads all people', async () => {
  const kernel = await openKernel();
  const { explaining, close } = await fillDatabase(kernel.databaseUrl, FILL);
  onTestFinished(close);
  const { sql, plans } = explaining();
  // A statement without rows throws; only the plan matters.
  const explained = (run: Promise<unknown>): Promise<unknown> => run.catch(() => undefined);

  await explained(findPersonSession(sql, 'a token'));
  await explained(personSessionsInForce(sql, [ID]));
  await explained(endSessionsOf(sql, ID));
  await explained(readPasswordHash(sql, ID));
  await explained(countSignInTry(sql, TRIED_AT));
  await explained(takeBackSignInTry(sql, TRIED_AT));
  await explained(forgetSignInFailures(sql, 'a@example.com'));
  await explained(isInvitationOpen(sql, 'a secret'));
  await explained(acceptInvitation(sql, { secret: 'a secret', name: null }));
  await explained(openPasswordReset(sql, { personId: ID, secret: 'a secret' }));
  await explained(listPeople(sql, { limit: 100 }));

  expect(plans.length).toBeGreaterThanOrEqual(10);
  for (const plan of plans) expect(plan).not.toMatch(/Seq Scan on (person|sign_in)/u);
});
