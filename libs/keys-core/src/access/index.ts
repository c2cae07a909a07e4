/** The service of this slice, and what apps and other slices may use of it. */
import type { Actor, AuditAction, OrderedRole } from '../kernel/access.ts';
import type { Count, Page, Searched, SearchedPage } from '../kernel/face-types.ts';
import { keepNewest } from '../kernel/requests.ts';
import type { Store } from '../postgres/open-store.ts';
import {
  endHoldOff,
  type HoldOff,
  type HoldOffService,
  type HoldOffView,
  readHoldOff,
} from '../postgres/witness/epoch.ts';
import { countTokensMadeBy } from './sql/api-tokens.ts';
import { type AuditEntry, writeAudit } from './sql/audit.ts';
import {
  changeRole,
  countPeople,
  disablePerson,
  enablePerson,
  invitePerson,
  listPeople,
  newInvitationSecret,
  openPasswordReset,
  type PersonView,
  readForRefusal,
  readPerson,
} from './sql/people.ts';
import {
  endSessionsOf,
  findPersonSession,
  markSessionsSeen,
  type SessionAccess,
} from './sql/sessions.ts';
import { forgetSignInFailures } from './sql/sign-in-failures.ts';

export {
  hashPassword,
  hasOidcAccount,
  newPassword,
  oidcAccountId,
  oidcPersonId,
  oidcSubjectOf,
  PASSWORD_LENGTH,
  readPasswordHash,
  removeAccountOfOtherIssuer,
  replacePassword,
  setPassword,
  verifyPassword,
} from './sql/accounts.ts';
export {
  type AdminSignIn,
  bootstrapCredentials,
  type Credentials,
  type DroneBindings,
  ensureFirstAdmin,
  FIRST_ADMIN_EMAIL,
  isAdminSignIn,
  makeAdmin,
  makeFirstToken,
  writeFirstCredentials,
} from './sql/bootstrap.ts';
export {
  insertToken,
  type NewToken,
  newTokenSecret,
  readTokensOf,
  type TokenBindings,
  tokensInForce,
  type TokenView,
} from './sql/api-tokens.ts';
export {
  type ActEntry,
  type AuditEntry,
  type AuditFilter,
  type AuditListInput,
  type AuditView,
  countAudit,
  grantRecorder,
  insertAudit,
  listAudit,
  nextAudit,
  openWebhook,
  readWebhook,
  recordWebhookStep,
  type WebhookAlarm,
  type WebhookProgress,
  type WebhookState,
  writeAudit,
} from './sql/audit.ts';
export {
  type Accepted,
  acceptInvitation,
  addPerson,
  changeRole,
  findPersonId,
  isInvitationOpen,
  type PersonView,
  readForRefusal,
  recordSignIn,
} from './sql/people.ts';
export {
  endOtherSessions,
  endSession,
  endSessionsOf,
  personSessionsInForce,
  readSessionEpoch,
  removeOldPeopleRows,
  SESSION_DAYS_MAX,
  type SessionAccess,
  type Standing,
} from './sql/sessions.ts';
export {
  countSignInTry,
  forgetSignInFailures,
  sourceOfTries,
  takeBackSignInTry,
  type TriedAt,
} from './sql/sign-in-failures.ts';
export {
  createTokenAuthority,
  createTokenService,
  type LimitUse,
  type TokenAuthority,
  type TokenRequest,
  TOKENS_TOPIC,
  type TokenService,
} from './token-service.ts';

/** The time after a restore in which nothing new is granted. */
export function createHoldOffService(store: Pick<Store, 'general' | 'witness'>): HoldOffService {
  return {
    get: async () => holdOffView(await readHoldOff(store.general)),
    async end({ reason, epoch }, actor) {
      // A change that nobody has recorded yet would start a hold-off again a moment later.
      await store.witness.look();
      return store.general.$transaction(async (tx) => {
        const ended = holdOffView(await endHoldOff(tx, epoch));
        if (ended !== null) {
          const { cause, since, until } = ended;
          await writeAudit(tx, {
            ...actor,
            action: 'holdOff.end',
            resource: 'database',
            reason,
            detail: { cause, since, until },
          });
        }
        return { ended, remaining: holdOffView(await readHoldOff(tx)) };
      });
    },
  };
}

/** The form on the wire. */
export function holdOffView(holdOff: HoldOff | null): HoldOffView | null {
  if (holdOff === null) return null;
  const { since, until, remainingMs, cause, epoch } = holdOff;
  return {
    since: since === null ? null : new Date(since).toISOString(),
    until: new Date(until).toISOString(),
    remainingMs: Math.ceil(remainingMs),
    cause,
    epoch,
  };
}

/** A person and the one-time path with which they set their password; shown once. */
export interface Invitation {
  readonly person: PersonView;
  /** Of the console: `/sign-in?invitation=…`, and `&reset=1` when it is for a new password. */
  readonly path: string;
  readonly expiresAt: string;
}

/** What an administrator does to a person. */
interface PersonAct {
  readonly personId: string;
  readonly reason?: string | undefined;
}

/** Who may sign in to the console. Nobody can take the last administrator away. */
export interface PeopleService {
  /** Newest first; searched by a part of a name or an e-mail address. */
  list(input: SearchedPage): Promise<Page<PersonView>>;
  /** How many people all pages of the list have. */
  count(input: Searched): Promise<Count>;
  /**
   * Makes a person, or renews the invitation of one who has not accepted it.
   * @throws {LeaseError} `person.exists`.
   */
  invite(
    input: { email: string; name?: string | undefined; role: OrderedRole },
    actor: Actor,
  ): Promise<Invitation>;
  /** @throws {LeaseError} `person.not_found`, `person.last_admin`. */
  setRole(input: PersonAct & { role: OrderedRole }, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Ends the person's sessions too. `tokensMade` are those in force that they made: they go on
   * working until somebody revokes them.
   * @throws {LeaseError} `person.not_found`, `person.last_admin`.
   */
  disable(input: PersonAct, actor: Actor): Promise<{ changed: boolean; tokensMade: number }>;
  /** Lets a disabled or locked person sign in again. @throws {LeaseError} `person.not_found`. */
  enable(input: PersonAct, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Makes a link with which somebody who has joined chooses a new password; an earlier link ends.
   * The old password works until the link is used. Then their sessions and any lock-out end.
   * @throws {LeaseError} `person.not_found`, `person.not_joined`, `person.disabled`.
   */
  resetPassword(input: PersonAct, actor: Actor): Promise<Invitation>;
  /** @throws {LeaseError} `person.not_found`. */
  signOutEverywhere(input: PersonAct, actor: Actor): Promise<{ endedCount: number }>;
}

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
          const { email, formerNamespaces } = change;
          const lifted = formerNamespaces === null ? {} : { namespaces: null, formerNamespaces };
          const detail = { email, role: input.role, ...lifted };
          await writeAudit(tx, entry('people.setRole', input, actor, detail));
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

// Finds the session of a cookie's token. As with tokens of programs, answers are kept for a moment
// (`SESSION_CACHE_MS`), and whatever ends a session or changes what its person may do makes every
// answer stale by a hint. Without the hint it takes effect after that moment.

const SESSION_CACHE_MS = 1_000;
/** Signed in browsers that are active at once; the oldest answer goes first. */
const CACHED_SESSIONS_MAX = 10_000;
/** The use of a session is recorded at most this often. */
const SEEN_EVERY_MS = 10 * 60_000;

/** The topic of the hint that people or their sessions have changed. */
export const PEOPLE_TOPIC = 'people';

export interface SessionAuthority {
  /** The session with this token, or undefined when none is in force. */
  authenticate(token: string): Promise<SessionAccess | undefined>;
  /** Records which sessions were used, where that is due; called from the background. */
  flushSeen(): Promise<void>;
  close(): void;
}

interface CachedSession {
  readonly access: Promise<SessionAccess | undefined>;
  readonly readAtMs: number;
}

export function createSessionAuthority(
  store: Pick<Store, 'vital' | 'hints' | 'clock'>,
): SessionAuthority {
  const cached = new Map<string, CachedSession>();
  const used = new Set<string>();
  const writtenAtMs = new Map<string, number>();
  const off = store.hints.on(PEOPLE_TOPIC, () => {
    // A lookup under way may find the state from before the change: nobody else may get its answer.
    cached.clear();
  });

  function look(token: string): Promise<SessionAccess | undefined> {
    const nowMs = store.clock.nowMs();
    const known = cached.get(token);
    if (known !== undefined && nowMs - known.readAtMs < SESSION_CACHE_MS) return known.access;
    const entry = { access: findPersonSession(store.vital, token), readAtMs: nowMs };
    keepNewest(cached, CACHED_SESSIONS_MAX, [token, entry]);
    entry.access.catch(() => {
      // A failure is not an answer: the next caller asks again.
      if (cached.get(token) === entry) cached.delete(token);
    });
    return entry.access;
  }

  return {
    async authenticate(token) {
      const access = await look(token);
      if (access !== undefined) used.add(access.sessionId);
      return access;
    },
    async flushSeen() {
      const nowMs = store.clock.nowMs();
      const isDue = (sessionId: string): boolean =>
        nowMs - (writtenAtMs.get(sessionId) ?? -Infinity) >= SEEN_EVERY_MS;
      const due = [...used].filter(isDue);
      used.clear();
      for (const sessionId of [...writtenAtMs.keys()].filter(isDue)) writtenAtMs.delete(sessionId);
      if (due.length === 0) return;
      await markSessionsSeen(store.vital, due);
      for (const sessionId of due) writtenAtMs.set(sessionId, nowMs);
    },
    close: off,
  };
}
