/** The keys that tokens are signed with, what they may start, and which are refused. */
import type { GatewayKey, GatewayRevocation, GatewayUse } from '../kernel/gateway.ts';
import { LIMITS } from '../kernel/limits.ts';
import type { SpawnRequest } from '../keys/index.ts';
import { removeOld, type RetentionPass } from '../postgres/retention-pass.ts';
import { arrayText, type Dated, fragment, onlyRow, type Sql } from '../postgres/sql.ts';
import type { GatewaySigningKey } from './gateway-tokens.ts';

/** For how long after a moment tokens may be in force that were issued up to it: a minute more than the longest. */
const TOKENS_OVER_AFTER_SECONDS = LIMITS.gatewayTokenSecondsMax + 60;
/** A start is kept longer than its token, so that the next tokens of the same need not write. */
const START_KEPT_SECONDS = 60 * 60;

// Statements, although two of the tables are rows like any other: each decides something by the database's clock.

/** The key that signs now, and when that is, in epoch milliseconds of the database. */
export interface Signing extends GatewaySigningKey {
  readonly nowMs: number;
  /** Whole milliseconds, later than every revocation before it: see {@link LATER_THAN_REVOCATIONS}. */
  readonly issuedMs: number;
}

/**
 * Now, unless the newest revocation is of this millisecond, or of a later one because the clock was set back: what
 * comes after a revocation is later than it, so that a user who is let in again right after it is
 * not refused.
 */
const LATER_THAN_REVOCATIONS = fragment`
  greatest(
    date_trunc('milliseconds', clock_timestamp()),
    (select r.at from gateway_revocation r order by r.place desc limit 1) + interval '1 millisecond'
  )`;

/** Undefined before the first key was made. Index: `gateway_key_current_key`. */
export async function readSigning(sql: Sql<'general'>): Promise<Signing | undefined> {
  const rows = await sql.$queryRaw<Signing[]>`
    select k.kid, k.public_x as x, k.private_d as d,
      date_part('epoch', clock_timestamp()) * 1000 as "nowMs",
      round(date_part('epoch', ${LATER_THAN_REVOCATIONS}) * 1000) as "issuedMs"
    from gateway_key k
    where k.retired_at is null`;
  return rows[0];
}

/** Keeps a key, unless another one signs already: of several controllers, one is the first. */
export async function addFirstKey(
  sql: Sql<'general'>,
  { kid, x, d }: GatewaySigningKey,
): Promise<void> {
  await sql.$queryRaw`
    insert into gateway_key (kid, public_x, private_d) values (${kid}, ${x}, ${d})
    on conflict do nothing`;
}

/**
 * Retires the key that signs, and keeps the new one, in a transaction. The older keys verify until all of their
 * tokens are over; with `endsTokens` they verify nothing from now on, and revocations have nothing left to refuse.
 */
export async function replaceKey(
  tx: Sql<'general'>,
  { kid, x, d }: GatewaySigningKey,
  endsTokens: boolean,
): Promise<void> {
  const keptSeconds = endsTokens ? 0 : TOKENS_OVER_AFTER_SECONDS;
  // Two rotations at once: the second one retires the key of the first.
  await tx.$queryRaw`lock table gateway_key in share row exclusive mode`;
  await tx.$queryRaw`
    update gateway_key k
    set retired_at = coalesce(k.retired_at, clock_timestamp()),
      until = least(k.until, clock_timestamp() + ${keptSeconds}::int * interval '1 second')
    where k.retired_at is null or ${endsTokens}`;
  await tx.$queryRaw`
    insert into gateway_key (kid, public_x, private_d) values (${kid}, ${x}, ${d})`;
  if (endsTokens) await tx.$queryRaw`delete from gateway_revocation`;
}

/**
 * Keeps what tokens may start until `untilMs` of the database's clock, at least. Writes nothing if it is kept for that
 * long already. Index: the primary key.
 */
export async function keepStart(
  sql: Sql<'general'>,
  { id, spec, untilMs }: { readonly id: string; readonly spec: string; readonly untilMs: number },
): Promise<void> {
  const until = fragment`to_timestamp(${untilMs}::float8 / 1000)`;
  await sql.$queryRaw`
    insert into gateway_start as s (id, spec, until)
    select ${id}, ${spec}::jsonb, ${until} + ${START_KEPT_SECONDS}::int * interval '1 second'
    where not exists (select from gateway_start k where k.id = ${id} and k.until >= ${until})
    on conflict (id) do update set until = greatest(s.until, excluded.until)`;
}

/** What a token may start; undefined when it is not known any more. Index: the primary key. */
export async function readStart(
  sql: Sql<'general'>,
  id: string,
): Promise<SpawnRequest | undefined> {
  const rows = await sql.$queryRaw<{ spec: SpawnRequest }[]>`
    select s.spec from gateway_start s where s.id = ${id} and clock_timestamp() < s.until`;
  return rows[0]?.spec;
}

export interface NewRevocation extends Omit<GatewayRevocation, 'at'> {
  readonly by: string;
  readonly reason: string;
  /** Whether room is left for others: for operators, and for callers besides this one. */
  readonly leavesRoom: boolean;
}

/** What callers who leave room have at most: each of them, and all together. */
const REVOCATIONS_OF_CALLER_MAX = LIMITS.gatewayRevocationsMax * 0.5;
const REVOCATIONS_OF_CALLERS_MAX = LIMITS.gatewayRevocationsMax * 0.9;

/**
 * Refuses tokens from now on, in a transaction. The same again moves only its moment. Those that are added at once
 * wait for each other, so that a gateway that has read one has read all before it.
 * @returns the moment, in epoch milliseconds; undefined when there are too many.
 */
export async function addRevocation(
  tx: Sql<'general'>,
  { id, namespace, name, user, leaseId, by, reason, leavesRoom }: NewRevocation,
): Promise<number | undefined> {
  const allMax = leavesRoom ? REVOCATIONS_OF_CALLERS_MAX : LIMITS.gatewayRevocationsMax;
  const ownMax = leavesRoom ? REVOCATIONS_OF_CALLER_MAX : LIMITS.gatewayRevocationsMax;
  await tx.$queryRaw`lock table gateway_revocation in share row exclusive mode`;
  const rows = await tx.$queryRaw<{ at: number }[]>`
    with now as materialized (select ${LATER_THAN_REVOCATIONS} as at)
    insert into gateway_revocation as r (id, namespace, name, user_name, lease_id, at, until, revoked_by, reason)
    select ${id}::uuid, ${namespace}, ${name}, ${user}, ${leaseId}::uuid, now.at,
      greatest(now.at, clock_timestamp()) + ${TOKENS_OVER_AFTER_SECONDS}::int * interval '1 second', ${by}, ${reason}
    from now
    cross join (
      select count(*) as all_of_them, count(*) filter (where o.revoked_by = ${by}) as own,
        -- The same again takes no more room.
        coalesce(bool_or(
          o.namespace = ${namespace} and o.name is not distinct from ${name}::text
          and o.user_name is not distinct from ${user}::text
          and o.lease_id is not distinct from ${leaseId}::uuid
        ), false) as is_there
      from gateway_revocation o
      where clock_timestamp() < o.until
    ) o
    where o.is_there or (o.all_of_them < ${allMax} and o.own < ${ownMax})
    on conflict (namespace, coalesce(name, ''), coalesce(user_name, ''), coalesce(lease_id::text, ''))
    do update set id = excluded.id, place = excluded.place, at = excluded.at, until = excluded.until,
      revoked_by = excluded.revoked_by, reason = excluded.reason
    returning round(date_part('epoch', r.at) * 1000) as at`;
  return rows[0]?.at;
}

/** What every gateway must know: the keys, and whether it has all revocations. */
export interface GatewayNews {
  readonly keys: readonly GatewayKey[];
  /** Changes with every revocation that is added. */
  readonly revision: string;
  /** The database's clock, in epoch milliseconds. */
  readonly asOf: number;
}

/** The revision before the first revocation. */
const NO_REVISION = 'none';

/** What a gateway is told at each call. Index: `gateway_revocation_place_key`. There are few keys. */
export async function readNews(sql: Sql<'vital'>): Promise<GatewayNews> {
  const rows = await sql.$queryRaw<GatewayNews[]>`
    select date_part('epoch', clock_timestamp()) * 1000 as "asOf",
      coalesce(
        (select r.id::text from gateway_revocation r order by r.place desc limit 1), ${NO_REVISION}
      ) as revision,
      coalesce(
        (
          select jsonb_agg(jsonb_build_object('kid', k.kid, 'x', k.public_x) order by k.created_at, k.kid)
          from gateway_key k
          where k.until is null or clock_timestamp() < k.until
        ),
        '[]'
      ) as keys`;
  return onlyRow(rows);
}

/** All that may refuse a token in force: at most `LIMITS.gatewayRevocationsMax`. */
export function readRevocations(sql: Sql<'vital'>): Promise<GatewayRevocation[]> {
  return sql.$queryRaw<GatewayRevocation[]>`
    select r.id, r.namespace, r.name, r.user_name as user, r.lease_id as "leaseId",
      round(date_part('epoch', r.at) * 1000) as at
    from gateway_revocation r
    where clock_timestamp() < r.until
    order by r.place`;
}

/** A gateway that does not report for this long is forgotten. */
const GATEWAY_KEPT_HOURS = 24;
/** Uses are for people who look at a key, and are of no use long after. */
const USE_KEPT_HOURS = 1;

/** Removes what is over. Index: those of `until`; the other tables are as small as what is in use. */
export async function removeOldGatewayRows(
  sql: Sql<'general'>,
  pass: RetentionPass,
): Promise<void> {
  const now = fragment`clock_timestamp()`;
  await removeOld(sql, pass, 'gateway keys', {
    old: fragment`select k.kid from gateway_key k where k.until < ${now} order by k.until`,
    deletes: fragment`gone as (delete from gateway_key k using old where k.kid = old.kid returning k.kid)`,
  });
  await removeOld(sql, pass, 'gateway starts', {
    old: fragment`select s.id from gateway_start s where s.until < ${now} order by s.until`,
    deletes: fragment`gone as (delete from gateway_start s using old where s.id = old.id returning s.id)`,
  });
  await removeOld(sql, pass, 'gateway revocations', {
    old: fragment`select r.id from gateway_revocation r where r.until < ${now} order by r.until`,
    deletes: fragment`
      gone as (delete from gateway_revocation r using old where r.id = old.id returning r.id)`,
  });
  await removeOld(sql, pass, 'gateways', {
    old: fragment`
      select g.id from gateway g
      where g.seen_at < ${now} - ${GATEWAY_KEPT_HOURS}::int * interval '1 hour'`,
    deletes: fragment`gone as (delete from gateway g using old where g.id = old.id returning g.id)`,
  });
  await removeOld(sql, pass, 'gateway uses', {
    old: fragment`
      select u.lease_id, u.gateway_id from gateway_use u
      where u.at < ${now} - ${USE_KEPT_HOURS}::int * interval '1 hour'`,
    deletes: fragment`
      gone as (
        delete from gateway_use u using old
        where u.lease_id = old.lease_id and u.gateway_id = old.gateway_id
        returning u.lease_id
      )`,
  });
}

/** A gateway as people see it. Instants are ISO-8601. */
export interface GatewayView {
  readonly gatewayId: string;
  readonly version: string;
  /** Requests in progress and open WebSockets, when it was last seen. */
  readonly connections: number;
  /** The keys that it led to. */
  readonly routes: number;
  /** All that it has reported. */
  readonly requests: number;
  /** Whether it has reported in the last seconds. */
  readonly isAlive: boolean;
  readonly startedAt: string;
  readonly seenAt: string;
}

/** A gateway that has not reported for this long is taken for dead. It reports twice a second. */
const ALIVE_SECONDS = 10;
/** As many as a person can look at; there are a handful. */
const GATEWAYS_MAX = 500;

export function listGateways(
  sql: Sql<'reads'>,
): Promise<Dated<GatewayView, 'startedAt' | 'seenAt'>[]> {
  return sql.$queryRaw`
    select g.id as "gatewayId", g.version, g.connections::float8 as connections,
      g.routes::float8 as routes, g.requests::float8 as requests, g.started_at as "startedAt", g.seen_at as "seenAt",
      g.seen_at > clock_timestamp() - ${ALIVE_SECONDS}::int * interval '1 second' as "isAlive"
    from gateway g
    order by g.id
    limit ${GATEWAYS_MAX}`;
}

/** Who uses the backends of routes. */

/** A gateway as it reports. */
interface ReportingGateway {
  readonly gatewayId: string;
  readonly version: string;
  /** Of all its routes: a call may have only a part of them. */
  readonly connections: number;
  readonly routes: number;
}

/** A use in which nothing changes is written again after this long. */
const UNCHANGED_WRITTEN_SECONDS = 5;
/** Of the average of requests per second. */
const AVERAGE_SECONDS = 10;

/**
 * Keeps what a gateway reports, for people to look at: the gateway itself, and the uses of grants, each of which must
 * be there once. Uses in which nothing changes are mostly not written. One statement. Index: the primary keys.
 */
export async function recordUses(
  sql: Sql<'vital'>,
  { gatewayId, version, connections, routes }: ReportingGateway,
  uses: readonly Omit<GatewayUse, 'usedAgoMs'>[],
): Promise<void> {
  const requests = uses.reduce((sum, use) => sum + use.requests, 0);
  // Of the seconds since the last report: the older the last average is, the less it counts.
  const seconds = fragment`greatest(0.001, date_part('epoch', excluded.at - u.at))`;
  const weight = fragment`exp(-${seconds} / ${AVERAGE_SECONDS}::float8)`;
  await sql.$queryRaw`
    with seen as (
      insert into gateway as g (id, version, connections, routes, requests, seen_at)
      values (${gatewayId}, ${version}, ${connections}::bigint, ${routes}::bigint, ${requests}::bigint,
        clock_timestamp())
      on conflict (id) do update
      set version = excluded.version, connections = excluded.connections, routes = excluded.routes,
        requests = g.requests + excluded.requests, seen_at = excluded.seen_at
      returning g.id, g.seen_at
    )
    insert into gateway_use as u (lease_id, gateway_id, connections, users, requests, requests_per_second, at)
    select w.lease_id, seen.id, w.connections, w.users, w.requests, 0, seen.seen_at
    from seen, unnest(
      ${arrayText(uses.map((use) => use.leaseId))}::uuid[],
      ${arrayText(uses.map((use) => use.connections))}::bigint[],
      ${arrayText(uses.map((use) => use.users))}::bigint[],
      ${arrayText(uses.map((use) => use.requests))}::bigint[]
    ) as w (lease_id, connections, users, requests)
    -- Two calls of one gateway at once lock rows in the same order.
    order by w.lease_id
    on conflict (lease_id, gateway_id) do update
    set connections = excluded.connections, users = excluded.users,
      requests = u.requests + excluded.requests, at = excluded.at,
      requests_per_second = u.requests_per_second * ${weight}
        + excluded.requests / ${seconds} * (1 - ${weight})
    where excluded.requests > 0 or u.connections <> excluded.connections or u.users <> excluded.users
      or u.at < excluded.at - ${UNCHANGED_WRITTEN_SECONDS}::int * interval '1 second'`;
}
