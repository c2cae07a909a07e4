/**
 * Faults that the tests must find: `npm run mutations`. Each is one place in which somebody could be wrong,
 * and breaks one promise.
 */

const CORE = 'libs/keys-core/src';

const GRANTING = [
  {
    name: 'frozen-yet-granted',
    breaks: 'the statement that grants decides whether an environment is frozen',
    file: `${CORE}/grants/sql/freezes.ts`,
    find: "if (requests.every(({ face }) => face !== 'environment')) return NO_FRAGMENT;",
    replace: 'if (requests.length > 0) return NO_FRAGMENT;',
  },
  {
    name: 'freeze-beside-a-grant',
    breaks: 'a freeze comes after each grant that has not seen it',
    file: `${CORE}/leases/sql/freezes.ts`,
    find: 'lock table environment_freeze in exclusive mode',
    replace: 'lock table environment_freeze in share update exclusive mode',
  },
  {
    name: 'grant-takes-what-is-held',
    breaks: 'a resource is granted only when the grant before is over',
    file: `${CORE}/postgres/clock/expiry.ts`,
    find: 'lease_takable(l.released_at, l.end_reason, l.expires_at, l.stops_by) and ${isSurelyOver(belief)}',
    replace: '${isSurelyOver(belief)}',
  },
  {
    name: 'grant-judges-before-the-lock',
    breaks: 'of two grants at once, one is made: the row is judged after its lock',
    file: `${CORE}/grants/sql/upsert-grants.ts`,
    find: 'where ${isFree}\n        and (l.home_reservation is null',
    replace: 'where (l.home_reservation is null',
  },
  {
    name: 'half-of-all',
    breaks: 'of several leases that are asked for together, all are granted or none',
    file: `${CORE}/grants/sql/grant-all.ts`,
    find: '1 / ((select count(*) from granted) = ${count})::int',
    replace: '1 / ((select count(*) from granted) > 0)::int',
  },
  {
    name: 'all-of-those-in-turn',
    breaks: 'several leases are granted together when it is the turn of the request in every line',
    file: `${CORE}/grants/sql/grant-all.ts`,
    find: 'and o.valid_until > clock_timestamp() and (t.id is null or o.id < t.id)',
    replace: 'and o.valid_until > clock_timestamp() and t.id is null',
  },
  {
    name: 'tickets-apart',
    breaks:
      'of two requests for several leases one is before the other in every line that both are in',
    file: `${CORE}/grants/sql/line-all.ts`,
    find: 'select b.id + a.place - 1,',
    replace: "select case a.place when 1 then b.id else nextval('lease_waiter_id_seq') end,",
  },
  {
    name: 'one-of-all-given-up',
    breaks: 'to give up a request for several leases ends all of them',
    file: `${CORE}/grants/sql/cancel-requests.ts`,
    find: 'coalesce(q.lease_count, 1)',
    replace: '1',
  },
  {
    name: 'one-permit-too-many',
    breaks: 'no more hold a key at once than there are permits',
    file: `${CORE}/grants/sql/pools.ts`,
    find: "when 'permit' then r.held_of_key + r.rank <= w.permits_per_key",
    replace: "when 'permit' then r.held_of_key + r.rank <= w.permits_per_key + 1",
  },
  {
    name: 'ordinary-beside-permits',
    breaks: 'a lease with permits is granted by permits alone',
    file: `${CORE}/grants/sql/grant.ts`,
    find: 'and not ${HAS_PERMITS}\n        and (w.request_id is null or not ${IS_USED})',
    replace: 'and (w.request_id is null or not ${IS_USED})',
  },
  {
    name: 'total-of-later-permits',
    breaks: 'a total that comes counts the permits that are held',
    file: `${CORE}/leases/sql/permits.ts`,
    find: 'hadTotal.get(namespace) === (total === null)',
    replace: 'false && hadTotal.get(namespace) === (total === null)',
  },
  {
    name: 'reader-beside-writer',
    breaks: 'a lease that one holds alone is not shared',
    file: `${CORE}/grants/sql/pools.ts`,
    find: "when 'shared' then r.held_alone = 0 and r.before_alone = 0",
    replace: "when 'shared' then r.before_alone = 0",
  },
  {
    name: 'token-of-the-clock-alone',
    breaks: 'each grant has a larger token than all before',
    file: `${CORE}/grants/sql/upsert-grants.ts`,
    find: 'lease_next_token(greatest(l.fencing_token, ${TOKEN_FLOOR}))',
    replace: 'lease_next_token(${TOKEN_FLOOR})',
  },
  {
    name: 'takeover-without-expired-event',
    breaks: 'a grant that ran out has its one event, also when the next grant ended it',
    file: `${CORE}/grants/sql/facts.ts`,
    find: "where g.previous_end in ('lapsed', 'unconfirmed')",
    replace: "where g.previous_end = 'unconfirmed'",
  },
  {
    name: 'acquire-or-renew-of-another-principal',
    breaks: 'a lease is renewed for its own holder of its own principal',
    file: `${CORE}/grants/sql/renew.ts`,
    find: 'where l.holder = w.holder and l.principal = w.principal and l.end_reason is null',
    replace: 'where l.holder = w.holder and l.end_reason is null',
  },
  {
    name: 'unwatched-expiry-believed',
    breaks: 'a grant whose expiry comes from a clock that stepped is not given away',
    file: `${CORE}/postgres/clock/expiry.ts`,
    find: 'l.renewed_at >= to_timestamp(${watchedSince / 1000}::float8)\n      or',
    replace: 'true\n      or',
  },
  {
    name: 'step-of-the-clock-unseen',
    breaks: 'a step of the database clock is noticed',
    file: `${CORE}/postgres/clock/clock-watch.ts`,
    find: 'if (Math.abs(apartMs) > JUMP_MS + slewMs) return apartMs;',
    replace: 'if (Math.abs(apartMs) > 10 * JUMP_MS + slewMs) return apartMs;',
  },
];

const RENEWING = [
  {
    name: 'observe-before-all-is-final',
    breaks: 'an observer never misses the newest state',
    file: `${CORE}/events/event-stream.ts`,
    find: 'while (isSettled && isAwaited() &&',
    replace: 'while (!isSettled && isAwaited() &&',
  },
  {
    name: 'update-with-any-token',
    breaks: 'metadata is changed only by the holder with its token',
    file: `${CORE}/grants/sql/renew.ts`,
    find: "when k.fencing_token <> ${request.fencingToken}::bigint then 'superseded'\n        end as refusal",
    replace: "when k.fencing_token < 0 then 'superseded'\n        end as refusal",
  },
  {
    name: 'update-of-an-expired-grant',
    breaks: 'metadata is changed only while the grant is in force, judged after the lock',
    file: `${CORE}/grants/sql/renew.ts`,
    find: 'where l.lease_id = j.lease_id and j.refusal is null\n      returning l.face, l.namespace, ${SCOPE_NAME}',
    replace:
      "where l.lease_id = j.lease_id and (j.refusal is null or j.refusal = 'expired')\n      returning l.face, l.namespace, ${SCOPE_NAME}",
  },
  {
    name: 'renewal-of-a-blocked-grant',
    breaks: 'a grant whose renewal is blocked is not renewed',
    file: `${CORE}/grants/sql/renew.ts`,
    find: 'and l.renewable and l.released_at is null',
    replace: 'and l.released_at is null',
  },
  {
    name: 'renewal-revives',
    breaks: 'a renewal never revives a grant that has expired',
    file: `${CORE}/grants/sql/renew.ts`,
    find: "when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'\n          when not k.renewable",
    replace: 'when not k.renewable',
  },
  {
    name: 'renewal-of-another-principal',
    breaks: 'only the principal that holds a grant renews it',
    file: `${CORE}/grants/sql/renew.ts`,
    find: 'where l.lease_id = a.lease_id and l.principal = a.principal and',
    replace: 'where l.lease_id = a.lease_id and',
  },
  {
    name: 'renewal-with-another-token',
    breaks: 'a grant is renewed with its own token',
    file: `${CORE}/grants/sql/renew.ts`,
    find: "when k.fencing_token <> a.fencing_token then 'superseded'\n",
    replace: '\n',
  },
  {
    name: 'renewal-from-the-clock-of-its-grant',
    breaks: 'a renewed grant lasts for its whole term again',
    file: `${CORE}/grants/sql/renew.ts`,
    find: "expires_at = clock_timestamp() + l.ttl_ms * interval '1 millisecond'\n      -- One pass",
    replace: "expires_at = l.granted_at + l.ttl_ms * interval '1 millisecond'\n      -- One pass",
  },
];

const ENDING = [
  {
    name: 'release-with-another-token',
    breaks: 'a grant is released with its own token',
    file: `${CORE}/grants/sql/release.ts`,
    find: 'and l.fencing_token = a.fencing_token\n        and l.released_at is null',
    replace: 'and l.released_at is null',
  },
  {
    name: 'release-hides-an-expiry',
    breaks: 'a grant that has expired ends as expired, however late its release comes',
    file: `${CORE}/grants/sql/release.ts`,
    find: "when not lease_unexpired(k.released_at, k.end_reason, k.expires_at) then 'expired'\n",
    replace: '\n',
  },
  {
    name: 'reaper-believes-every-clock',
    breaks: 'the reaper ends no grant by a clock that stepped',
    file: `${CORE}/grants/sql/reap.ts`,
    find: 'and ${expiryBelieved(range.belief)}\n',
    replace: '\n',
  },
  {
    name: 'reaper-owes-no-callback',
    breaks: 'the callback of a lease that expired is called',
    file: `${CORE}/grants/sql/facts.ts`,
    find: "where x.face = 'lease' and x.is_confirmed",
    replace: "where x.face = 'lease' and not x.is_confirmed",
  },
  {
    name: 'callback-again-at-once',
    breaks: 'a callback that failed is called again after a while, not at once',
    file: `${CORE}/grants/sql/reap.ts`,
    find: "+ least(60, power(2, least(p.attempts, 6))) * interval '1 second'",
    replace: "+ least(60, power(2, least(p.attempts, 6))) * interval '1 millisecond'",
  },
  {
    name: 'callback-of-the-sibling-namespace',
    breaks: 'a reaper of a namespace calls back for nothing in a namespace beside it',
    file: `${CORE}/grants/sql/reap.ts`,
    find: "and p.namespace >= (n.namespace || '.') ${C} and",
    replace: 'and p.namespace > n.namespace ${C} and',
  },
  {
    name: 'revoke-does-not-fence',
    breaks: 'a revoke by force raises the token, so that a sink can refuse the holder',
    file: `${CORE}/grants/sql/revoke.ts`,
    find: "l.fencing_token + case when k.mode = 'force' then 1 else 0 end",
    replace: 'l.fencing_token',
  },
  {
    name: 'revoke-does-not-block-renewal',
    breaks: 'a graceful revoke blocks the renewal of the grant',
    file: `${CORE}/grants/sql/revoke.ts`,
    find: 'set renewable = false,',
    replace: "set renewable = k.mode = 'graceful',",
  },
  {
    name: 'revoke-frees-a-key-at-once',
    breaks: 'a key that was ended by force waits until its backend must be gone',
    file: `${CORE}/grants/sql/revoke.ts`,
    find: "and l.face = 'key' and not k.abandon then",
    replace: "and l.face = 'key' and k.abandon then",
  },
  {
    name: 'revoke-without-event',
    breaks: 'each revoke has its event',
    file: `${CORE}/grants/sql/revoke.ts`,
    find: 'join locked k on k.lease_id = r.lease_id\n',
    replace: "join locked k on k.lease_id = r.lease_id and k.mode = 'force'\n",
  },
];

const QUEUE = [
  {
    name: 'last-in-line-first',
    breaks: 'waiters are granted in the order in which they came',
    file: `${CORE}/grants/sql/grant.ts`,
    find: '(t.id is null or o.id < t.id)',
    replace: '(t.id is null or o.id > t.id)',
  },
  {
    name: 'newcomer-passes-the-line',
    breaks: 'nobody gets a lease while an earlier caller waits for it',
    file: `${CORE}/grants/sql/grant.ts`,
    find: "(w.face <> 'lease' or not ${IS_AWAITED})\n        and",
    replace: 'true\n        and',
  },
  {
    name: 'dead-waiter-holds-up-the-line',
    breaks: 'the ticket of a waiter that died is passed over',
    file: `${CORE}/grants/sql/grant.ts`,
    find: 'and o.valid_until > clock_timestamp() and (t.id',
    replace: 'and (t.id',
  },
  {
    name: 'waiter-that-gave-up-stays',
    breaks: 'a waiter that gave up is granted nothing',
    file: `${CORE}/grants/sql/cancel-requests.ts`,
    find: 'where w.ticket_id = any(array(\n        select unnest(array_agg(t.ticket_id)) from there t group by t.request_at having bool_and(t.is_locked)\n      ))',
    replace: 'where w.ticket_id is null',
  },
  {
    name: 'given-up-request-stays-open',
    breaks: 'a request that was given up is never answered with a grant again',
    file: `${CORE}/grants/sql/cancel-requests.ts`,
    find: 'where q.ctid = any(',
    replace: 'where false and q.ctid = any(',
  },
  {
    name: 'locked-place-delays-others',
    breaks: 'many leave the line together, and none waits for a place that is locked',
    file: `${CORE}/grants/sql/line.ts`,
    find: 'for update of w skip locked',
    replace: 'for update of w',
  },
  {
    name: 'environment-line-overtaken',
    breaks: 'nobody is granted an environment while an earlier caller waits for it',
    file: `${CORE}/grants/sql/environment-line.ts`,
    find: "if (requests.every(({ face }) => face !== 'environment')) return NO_FRAGMENT;",
    replace: 'if (requests.length > 0) return NO_FRAGMENT;',
  },
  {
    name: 'frozen-waiter-holds-up-the-line',
    breaks: 'a frozen waiter keeps back nobody whose action is not frozen',
    file: `${CORE}/grants/sql/environment-line.ts`,
    find: 'not exists (select ${BEFORE} and ${IS_NOT_FROZEN})',
    replace: 'not exists (select ${BEFORE})',
  },
  {
    name: 'superseded-still-waits',
    breaks: 'a request that was superseded while it waited is granted nothing',
    file: `${CORE}/grants/sql/environment-line.ts`,
    find: 'delete from lease_waiter o\n      where o.ticket_id = any(array(select t.ticket_id from ticket t))\n      returning o.*',
    replace: 'select o.* from lease_waiter o join ticket t on t.ticket_id = o.ticket_id',
  },
  {
    name: 'superseded-still-runs',
    breaks: 'what a newer request supersedes is revoked',
    file: `${CORE}/leases/environment-waiting.ts`,
    find: "supersede === 'running' ? await readRunning(tx, request) : undefined",
    replace: 'undefined as string | undefined',
  },
  {
    name: 'superseded-comes-back-later',
    breaks: 'a request whose place has lapsed never comes after the one that has superseded it',
    file: `${CORE}/grants/sql/line.ts`,
    find: "when 'environment' then interval '24 hours'",
    replace: "when 'environment' then interval '10 seconds'",
  },
  {
    name: 'together-is-an-order',
    breaks: 'leases that are granted together are not taken in an order',
    file: `${CORE}/leases/why.ts`,
    find: 'const isOrdered = held.transaction !== grant.transaction;',
    replace: 'const isOrdered = true;',
  },
  {
    name: 'wait-of-the-refused-is-lost',
    breaks: 'a wait that ended without a grant is counted',
    file: 'prisma/migrations/20261129100000_waits/migration.sql',
    find: "for each row when (old.face <> 'key')",
    replace: "for each row when (old.face <> 'key' and old.valid_until > clock_timestamp())",
  },
  {
    name: 'repeated-request-supersedes-again',
    breaks: 'a request supersedes nothing that came after it, however often it is sent',
    file: `${CORE}/leases/environment-waiting.ts`,
    find: 'ticket.isFirst &&',
    replace: 'true &&',
  },
];

const LADDER = [
  {
    name: 'deadlines-from-the-reply',
    breaks: 'an answer that was delayed leaves less time, not more',
    file: `${CORE}/kernel/ladder.ts`,
    find: 'localTimeMs + Math.min(remainingMs, ladder.ttlMs)',
    replace: 'localTimeMs + ladder.ttlMs',
  },
  {
    name: 'deadlines-from-a-late-answer',
    breaks: 'what the answer of a wait takes is no part of the wait',
    file: `${CORE}/leases/acquiring.ts`,
    find: 'sinceSentMs({ startedAtMs, askedAtMs }, grant, joinedAsOf)',
    replace: 'sinceSentMs({ startedAtMs, askedAtMs: this.#deps.nowMs() }, grant, joinedAsOf)',
  },
  {
    name: 'soft-stop-with-the-hard-one',
    breaks: 'a holder is asked to stop before it is killed',
    file: `${CORE}/kernel/ladder.ts`,
    find: 'softTerminateAtMs: expiresAtMs - (ladder.ttlMs - ladder.softAfterMs)',
    replace: 'softTerminateAtMs: expiresAtMs - (ladder.ttlMs - ladder.hardAfterMs)',
  },
  {
    name: 'expired-an-instant-late',
    breaks: 'at the instant of its expiry a grant is expired',
    file: `${CORE}/kernel/lease.ts`,
    find: 'if (asOf >= row.expiresAt)',
    replace: 'if (asOf > row.expiresAt)',
  },
  {
    name: 'answer-moves-deadlines-back',
    breaks: 'deadlines only move later',
    file: `${CORE}/holder/lease-keeper.ts`,
    find: 'if (isProvisional || isLater) this.#deadlines = deadlines;',
    replace: 'this.#deadlines = deadlines;',
  },
];

const WARDEN = [
  {
    name: 'hard-deadline-ignored',
    breaks: 'no backend runs past its hard deadline',
    file: 'apps/drone/src/warden/warden.ts',
    find: 'if (nowMs < Math.min(this.#hardAtMs, this.#graceEndsAtMs))',
    replace: 'if (nowMs < this.#graceEndsAtMs)',
  },
  {
    name: 'soft-stop-skipped',
    breaks: 'a backend is asked to stop at its soft deadline',
    file: 'apps/drone/src/warden/warden.ts',
    find: 'this.#stopReason === null) {\n        this.#beginStop(KEY_EXPIRED, nowMs);',
    replace: 'this.#stopReason === null) {\n        this.#stopReason = KEY_EXPIRED;',
  },
  {
    name: 'extension-after-soft',
    breaks: 'a backend that must stop by now gets no later deadline',
    file: 'apps/drone/src/warden/warden.ts',
    find: "if (held.softAtMs <= nowMs) return 'stopping';",
    replace: '',
  },
  {
    name: 'slow-launch-released-late',
    breaks: 'a program whose launch took too long never runs',
    file: 'apps/drone/src/warden/warden.ts',
    find: '// Launching took time; the program runs only if soft is still ahead.\n      this.#refuseUnlessWanted(request);',
    replace: '',
  },
  {
    name: 'warm-process-claimed-twice',
    breaks: 'a warm process becomes the backend of one key',
    file: 'apps/drone/src/warden/warden.ts',
    find: 'this.#warm.delete(warmId);\n    return process;',
    replace: 'return process;',
  },
  {
    name: 'warm-process-outlives-its-agent',
    breaks: 'a warm process ends with the command of its agent',
    file: 'apps/drone/src/warden/warden.ts',
    find: 'this.#launchingIds.clear();\n    this.coolAll();',
    replace: 'this.#launchingIds.clear();',
  },
  {
    name: 'ready-before-the-claim-is-taken',
    breaks: 'nobody is sent to a warm process that has not taken its claim',
    file: 'apps/drone/src/agent/backend-run.ts',
    find: 'if (!notes.isReady && notes.claimFile !== undefined)',
    replace: 'if (false)',
  },
];

const CONNECTING = [
  {
    name: 'other-tag-connected',
    breaks: 'a connect with another tag is refused',
    file: `${CORE}/keys/decide-connect.ts`,
    find: "if (lease.tag !== asked.tag) return { do: 'refuse', code: 'key.tag_mismatch' };",
    replace: '',
  },
  {
    name: 'second-backend-of-a-silent-drone',
    breaks: 'a key whose drone is silent gets no second backend before it has expired',
    file: `${CORE}/keys/decide-connect.ts`,
    find: "return { do: 'wait', code: 'key.holder_unreachable', remainingMs };",
    replace: "return { do: 'spawn' };",
  },
  {
    name: 'connected-to-a-stopping-backend',
    breaks: 'nobody is sent to a backend that was asked to stop',
    file: `${CORE}/keys/decide-connect.ts`,
    find: 'if (backend === null || isStopAsked || isStopping(backend.status))',
    replace: 'if (backend === null || isStopping(backend.status))',
  },
  {
    name: 'used-although-it-is-stopped',
    breaks: 'nobody is sent to a backend that is being stopped for idleness',
    file: `${CORE}/keys/sql/idle-stop.ts`,
    find: 'k.stop_asked_at is null and k.status_rank < ${STOPPING} as is_usable',
    replace: 'true as is_usable',
  },
  {
    name: 'use-without-a-lock',
    breaks: 'of a use and an idle stop at once, the second one finds the first',
    file: `${CORE}/keys/sql/idle-stop.ts`,
    find: 'limit 1\n        for no key update\n',
    replace: 'limit 1\n',
  },
  {
    name: 'idle-stop-without-a-lock',
    breaks: 'of a use and an idle stop at once, the second one finds the first',
    file: `${CORE}/keys/sql/idle-stop.ts`,
    find: 'limit 1\n        for no key update skip locked\n',
    replace: 'limit 1\n',
  },
  {
    name: 'idle-before-it-is-ready',
    breaks: 'idle time counts from when a backend is ready',
    file: `${CORE}/keys/sql/idle-stop.ts`,
    find: 'greatest(b.last_used_at, b.status_at) as used_at',
    replace: 'b.last_used_at as used_at',
  },
  {
    name: 'spawn-on-a-draining-drone',
    breaks: 'a drone that drains gets no new backend',
    file: `${CORE}/keys/sql/spawn.ts`,
    find: 'where d.id = ${plan.droneId} and not d.draining and d.lost_at is null',
    replace: 'where d.id = ${plan.droneId} and d.lost_at is null',
  },
  {
    name: 'spawn-on-a-drone-that-stops',
    breaks: 'a drone that was told to stop gets no new backend',
    file: `${CORE}/keys/sql/spawn.ts`,
    find: 'where d.id = ${plan.droneId} and not d.draining and d.lost_at is null\n        and d.stopped_session is distinct from d.session',
    replace: 'where d.id = ${plan.droneId} and not d.draining and d.lost_at is null',
  },
];

const ACCESS = [
  {
    name: 'orders-with-hidden-leases',
    breaks:
      'a caller that is limited to namespaces is told of no order with a lease that it may not see',
    file: `${CORE}/leases/sql/waits.ts`,
    find: 'and ${withinLimits(namespaces, fragment`r.namespace`)}',
    replace: '',
  },
  {
    name: 'client-may-revoke',
    breaks: 'only an operator revokes',
    file: 'libs/api/src/routers/lease-calls.ts',
    find: 'revoke: operatorProcedure',
    replace: 'revoke: clientProcedure',
  },
  {
    name: 'lower-roles-may-more',
    breaks: 'a role may do what the roles below it may, and nothing else',
    file: `${CORE}/kernel/access.ts`,
    find: 'ORDERED_ROLES.indexOf(role) >= ORDERED_ROLES.indexOf(needed)',
    replace: 'ORDERED_ROLES.indexOf(role) + 1 >= ORDERED_ROLES.indexOf(needed)',
  },
  {
    name: 'revoke-beyond-its-namespaces',
    breaks: 'an operator that is limited to namespaces revokes nothing outside of them',
    file: `${CORE}/grants/sql/revoke.ts`,
    find: 'a.mode, a.abandon, a.actor, a.reason, a.detail\n      from asked a\n      join lease l on l.lease_id = a.lease_id\n      where l.face = ${face} and lease_is_within(l.namespace, a.limits::jsonb)',
    replace:
      'a.mode, a.abandon, a.actor, a.reason, a.detail\n      from asked a\n      join lease l on l.lease_id = a.lease_id\n      where l.face = ${face}',
  },
  {
    name: 'holder-beyond-its-namespaces',
    breaks: 'a token that is limited to namespaces holds nothing outside of them',
    file: 'libs/api/src/access.ts',
    find: 'if (mayRead(access, namespace)) return;',
    replace: 'if (access.namespaces?.length !== 0) return;',
  },
];

const IDEMPOTENCY = [
  {
    name: 'other-request-of-one-key-answered',
    breaks: 'an idempotency key of another request is refused',
    file: `${CORE}/kernel/recorded-request.ts`,
    find: 'return record.fingerprint === request.fingerprint;',
    replace: 'return true;',
  },
  {
    name: 'replay-granted-again',
    breaks: 'a replay gets the answer of its first request, and no second grant',
    file: `${CORE}/grants/sql/grant.ts`,
    find: 'where m.request_id is not null',
    replace: "where m.request_id is not null and m.face <> 'lease'",
  },
  {
    name: 'given-up-request-granted-late',
    breaks: 'a request that was given up is never answered with its grant',
    file: `${CORE}/leases/acquiring.ts`,
    find: 'if (record.answer !== null || record.leaseId === null)',
    replace: 'if (record.leaseId === null)',
  },
];

const RESERVATIONS = [
  {
    name: 'home-overwritten',
    breaks: 'the first reservation of a key stays',
    file: `${CORE}/reservations/sql/reservations.ts`,
    find: 'where exists (select from alone) and not exists (select from known)\n        on conflict (key) do nothing',
    replace:
      'where exists (select from alone)\n        on conflict (key) do update set reservation_id = excluded.reservation_id',
  },
  {
    name: 'pointer-overwritten',
    breaks: 'where a reservation moved to is written once',
    file: `${CORE}/reservations/sql/reservations.ts`,
    find: 'on conflict (from_id) do nothing',
    replace:
      'on conflict (from_id) do update set to_id = excluded.to_id, token_floor = excluded.token_floor',
  },
  {
    name: 'pointer-ignored',
    breaks: 'a key that has moved is found at its new home',
    file: `${CORE}/reservations/resolver.ts`,
    find: 'const toId = this.#steps.get(fromId) ?? (await this.#pointedTo(fromId));',
    replace: 'const toId = this.#steps.get(fromId);',
  },
  {
    name: 'left-home-grants',
    breaks: 'a datacenter grants no key that has left it',
    file: `${CORE}/reservations/sql/moves.ts`,
    find: 'set home_reservation = ${plan.toId}, released_at',
    replace: 'set home_reservation = ${plan.fromId}, released_at',
  },
  {
    name: 'token-floor-lost',
    breaks: 'the tokens of a key grow across its homes',
    file: `${CORE}/reservations/sql/reservations.ts`,
    find: 'fencing_token = greatest(l.fencing_token, ${tokenFloor}::bigint)',
    replace: 'fencing_token = l.fencing_token',
  },
];

const GATEWAY = [
  {
    name: 'token-of-another-key-let-in',
    breaks: 'a token opens its own key, and no other',
    file: 'apps/gateway/src/admission.ts',
    find: '      assertKey(target, token);\n',
    replace: '',
  },
  {
    name: 'token-of-another-key-on-its-host',
    breaks: 'on the host of a key, a token of another key opens nothing',
    file: 'apps/gateway/src/admission.ts',
    find: 'if (target.keyId !== undefined) assertHost(target.keyId, token);',
    replace: '',
  },
  {
    name: 'route-used-after-its-validity',
    breaks: 'nothing is passed to a backend whose grant may be over',
    file: 'apps/gateway/src/routes.ts',
    find: 'return !this.isEnded && nowMs < this.validUntilMs;',
    replace: 'return !this.isEnded;',
  },
  {
    name: 'validity-counted-from-the-answer',
    breaks: 'a route is valid from when its question was sent, and not from when the answer came',
    file: 'apps/gateway/src/routes.ts',
    find: 'const validUntilMs = sentAtMs + route.validForMs;',
    replace: 'const validUntilMs = nowMs + route.validForMs;',
  },
  {
    name: 'ended-grant-still-served',
    breaks: 'what a controller says has ended is passed no more',
    file: 'apps/gateway/src/routes.ts',
    find: "} else if (state?.state === 'ended') {",
    replace: '} else if (state === undefined) {',
  },
  {
    name: 'revoked-token-still-served',
    breaks: 'a token that was revoked opens nothing',
    file: 'apps/gateway/src/tokens.ts',
    find: "return token.isRevoked ? 'gateway.token_revoked' : undefined;",
    replace: 'return undefined;',
  },
];

export const MUTATIONS = [
  ...GRANTING,
  ...RENEWING,
  ...ENDING,
  ...QUEUE,
  ...LADDER,
  ...WARDEN,
  ...CONNECTING,
  ...ACCESS,
  ...IDEMPOTENCY,
  ...RESERVATIONS,
  ...GATEWAY,
];
