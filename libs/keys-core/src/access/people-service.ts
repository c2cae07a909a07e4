import type { Actor, AuditAction } from '../kernel/access.ts';
import type { Invitation, PeopleService, PersonAct } from './people-types.ts';
import {
  changeRole,
  disablePerson,
  enablePerson,
  readForRefusal,
} from './sql/people/people-changes.ts';
import { countTokensMadeBy } from './sql/api-tokens.ts';
import { endSessionsOf } from './sql/people/person-sessions.ts';
import { forgetSignInFailures } from './sql/sign-in/sign-in-failures.ts';
import { invitePerson, newInvitationSecret, openPasswordReset } from './sql/people/invitations.ts';
import { countPeople, listPeople, readPerson } from './sql/people/people.ts';
import { PEOPLE_TOPIC } from './session-authority.ts';
import { writeAudit, type AuditEntry } from './sql/audit.ts';
import type { Store } from '../postgres/open-store.ts';

type Tx = Parameters<typeof writeAudit>[0];

/**
 * People over the store. Every change is audited in its own transaction, and then reported to every
 * controller, so that sessions and open connections follow it.
 */
export function createPeopleService(store: Store): PeopleService {
  const { general, hints } = store;
  return {
    list: (input) => listPeople(general, input),
    count: (input) => countPeople(general, input),

    async invite(input, actor) {
      const secret = newInvitationSecret();
      const { email, role } = input;
      const invitation = await general.$transaction(async (tx) => {
        const made = await invitePerson(tx, {
          email,
          role,
          name: input.name ?? null,
          secret,
          invitedBy: actor.actor,
        });
        const act = { personId: made.personId };
        await writeAudit(tx, entry('people.invite', act, actor, { email, role }));
        return { person: await readPerson(tx, made.personId), expiresAt: made.expiresAt };
      });
      hints.notify(PEOPLE_TOPIC);
      return { ...invitation, path: `/sign-in?invitation=${secret}` };
    },

    async setRole(input, actor) {
      const { changed } = await general.$transaction(async (tx) => {
        const change = await changeRole(tx, input.personId, input.role);
        if (change.changed) {
          const { email } = change;
          await writeAudit(tx, entry('people.setRole', input, actor, { email, role: input.role }));
        }
        return change;
      });
      if (changed) hints.notify(PEOPLE_TOPIC);
      return { changed };
    },

    async disable(input, actor) {
      const { changed, tokensMade } = await general.$transaction(async (tx) => {
        const change = await disablePerson(tx, input.personId);
        const { email } = await readForRefusal(tx, input.personId);
        const made = await countTokensMadeBy(tx, email);
        if (change.changed) {
          const endedCount = await endSessionsOf(tx, input.personId);
          const detail = { email, endedCount, tokensMade: made };
          await writeAudit(tx, entry('people.disable', input, actor, detail));
        }
        return { changed: change.changed, tokensMade: made };
      });
      if (changed) hints.notify(PEOPLE_TOPIC);
      return { changed, tokensMade };
    },

    async enable(input, actor) {
      const changed = await general.$transaction((tx) => enable(tx, input, actor));
      if (changed) hints.notify(PEOPLE_TOPIC);
      return { changed };
    },

    async resetPassword(input, actor) {
      const reset = await general.$transaction((tx) => resetPassword(tx, input, actor));
      hints.notify(PEOPLE_TOPIC);
      return reset;
    },

    async signOutEverywhere(input, actor) {
      const endedCount = await general.$transaction((tx) => signOutEverywhere(tx, input, actor));
      hints.notify(PEOPLE_TOPIC);
      return { endedCount };
    },
  };
}

async function resetPassword(tx: Tx, act: PersonAct, actor: Actor): Promise<Invitation> {
  const secret = newInvitationSecret();
  const { personId } = act;
  const { email, expiresAt } = await openPasswordReset(tx, { personId, secret });
  await writeAudit(tx, entry('people.resetPassword', act, actor, { email }));
  const person = await readPerson(tx, personId);
  return { person, expiresAt, path: `/sign-in?invitation=${secret}&reset=1` };
}

/** @returns how many sessions have ended. */
async function signOutEverywhere(tx: Tx, act: PersonAct, actor: Actor): Promise<number> {
  const { email } = await readForRefusal(tx, act.personId);
  const endedCount = await endSessionsOf(tx, act.personId);
  await writeAudit(tx, entry('people.signOutEverywhere', act, actor, { email, endedCount }));
  return endedCount;
}

/** @returns whether the person was disabled or locked out. */
async function enable(tx: Tx, act: PersonAct, actor: Actor): Promise<boolean> {
  const { changed: wasDisabled, email } = await enablePerson(tx, act.personId);
  const wasLocked = await forgetSignInFailures(tx, email);
  // A session that began while the person was being disabled must not become valid again.
  if (wasDisabled) await endSessionsOf(tx, act.personId);
  if (!wasDisabled && !wasLocked) return false;
  await writeAudit(tx, entry('people.enable', act, actor, { email, wasDisabled, wasLocked }));
  return true;
}

function entry(
  action: AuditAction,
  act: PersonAct,
  actor: Actor,
  detail: Readonly<Record<string, unknown>>,
): AuditEntry {
  return { ...actor, action, resource: `person:${act.personId}`, reason: act.reason, detail };
}
