import { SYSTEM_ACTOR } from '../../../libs/keys-core/src/kernel/access.ts';
import type { Face, Resource } from '../../../libs/keys-core/src/kernel/resource.ts';
import { Statements, type Statement } from '../database/statements.ts';
import type { World } from '../engine/world.ts';
import type { HomeDatabase } from './home-database.ts';

/** The database's clocks are never stepped forward here, so that every expiry is believed. */
export const BELIEVED = { until: Infinity, watchedSince: 0, settledUntil: Infinity };
const MOVE_LADDER = { renewAfterMs: 1, softAfterMs: 2, hardAfterMs: 3, ttlMs: 4 };

/** What a datacenter's service of reservations sends to its database, on the model. */
export function homeStatements(world: World, database: HomeDatabase): Statements {
  const nothing = (text: string): Statement => ({ text, run: () => [] });
  return new Statements(world, [
    ...ofHomes(database),
    ...ofActivation(world, database),
    ...ofMoves(world, database),
    nothing('as "remainingMs", coalesce(e.hold_off_until'),
    nothing('select 1 as one where exists'),
    nothing('with lost as ('),
  ]);
}

function ofHomes({ homes, pointers }: HomeDatabase): Statement[] {
  return [
    {
      text: 'select reservation_id as "reservationId" from reservation_home',
      run([key]) {
        const reservationId = homes.get(key as string);
        return reservationId === undefined ? [] : [{ reservationId }];
      },
    },
    {
      text: 'insert into reservation_home (key, reservation_id) values',
      run([key, reservationId]) {
        if (homes.has(key as string)) return [];
        homes.set(key as string, reservationId as string);
        return [{ reservationId }];
      },
    },
    {
      text: 'from reservation_pointer where from_id',
      run([fromId]) {
        const pointer = pointers.get(fromId as string);
        return pointer === undefined ? [] : [pointer];
      },
    },
    {
      text: 'insert into reservation_pointer',
      run(values) {
        const [fromId = '', toId = '', tokenFloor = ''] = values as string[];
        if (pointers.has(fromId)) return [];
        const pointer = { fromId, toId, tokenFloor };
        pointers.set(fromId, pointer);
        return [pointer];
      },
    },
  ];
}

function ofActivation(world: World, database: HomeDatabase): Statement[] {
  const { reservations, pointers, rowHomes, leases } = database;
  return [
    {
      text: 'left join reservation_pointer p on p.from_id = r.reservation_id',
      run([reservationId, key]) {
        const row = reservations.get(reservationId as string);
        if (row === undefined || row.key !== key) return [];
        const { toId = null, tokenFloor = null } = pointers.get(reservationId as string) ?? {};
        const left = { movedAt: null, movedBy: null, moveReason: null };
        return [{ state: row.state, toId, tokenFloor, ...left }];
      },
    },
    {
      text: 'insert into reservation (reservation_id, key, namespace, name, chain, activated_by) values',
      run(values) {
        const [reservationId = '', key = ''] = values as string[];
        const isTaken = reservations.has(reservationId) || database.activeOf(key).length > 0;
        if (isTaken) return [];
        reservations.set(reservationId, { key, state: 'active' });
        world.trace(() => `${database.datacenter} is the home of ${key}`);
        return [{ one: 1 }];
      },
    },
    {
      text: "r.at, r.at, r.at, r.at, 'removed'",
      run(values) {
        const [face, namespace, name] = values as [Face, string, string];
        leases.place(placing({ face, namespace, name }, world.random.uuid()), 0n);
        return [];
      },
    },
    {
      text: 'returning 1 as unsealed',
      run(values) {
        const [reservationId, floor, namespace, name] = values as string[];
        const chain = values.find((value): value is string[] => Array.isArray(value)) ?? [];
        const resource: Resource = { face: 'key', namespace: namespace ?? '', name: name ?? '' };
        const rowHome = rowHomes.get(resource.name);
        if (rowHome !== undefined && !chain.includes(rowHome)) return [];
        rowHomes.set(resource.name, reservationId ?? '');
        const isLost = world.has('token-floor-lost');
        leases.place(placing(resource, ''), isLost ? 0n : BigInt(floor ?? '0'));
        return [{ unsealed: 1 }];
      },
    },
  ];
}

function ofMoves(world: World, database: HomeDatabase): Statement[] {
  const { reservations, rowHomes, leases, datacenter } = database;
  return [
    {
      text: 'select state from reservation where',
      run([reservationId, key]) {
        const row = reservations.get(reservationId as string);
        return row !== undefined && row.key === key ? [{ state: row.state }] : [];
      },
    },
    {
      text: 'select extract(epoch from clock_timestamp())::float8 * 1000 as "asOf"',
      run: () => [{ asOf: leases.now() }],
    },
    grantOfMove(world, database),
    {
      text: 'with ordinality as w (face, namespace, name, place) join lease l',
      run([faces, namespaces, names]) {
        const [face, namespace, name] = [faces, namespaces, names].map(
          (list) => (list as string[])[0],
        );
        const row = leases.read({
          face: face as Face,
          namespace: namespace ?? '',
          name: name ?? '',
        });
        return row === undefined ? [] : [{ ...row, place: 1 }];
      },
    },
    {
      text: 'with sealed as (',
      run([toId, leaseId]) {
        const grant = leases.past(leaseId as string);
        // Without a grant of the move's own: the row of the one that holds the key.
        const name = grant?.name ?? 'k';
        rowHomes.set(name, toId as string);
        if (grant === undefined) return [];
        const { fencingToken, principal } = grant;
        leases.release('key', { leaseId: leaseId as string, fencingToken, principal });
        world.trace(() => `${name} leaves ${datacenter}`);
        return [];
      },
    },
    {
      text: 'select greatest(?::bigint, floor(',
      run([token]) {
        const [own, now] = [BigInt(token as string), BigInt(leases.now())];
        return [{ tokenFloor: String(own > now ? own : now) }];
      },
    },
    {
      text: 'returning 1 as moved',
      run(values) {
        const row = reservations.get(values.at(-1) as string);
        if (row !== undefined) row.state = 'moved';
        return [];
      },
    },
  ];
}

/** The grant that a move takes, so that only a free or an expired key leaves. */
function grantOfMove(world: World, database: HomeDatabase): Statement {
  const { leases } = database;
  return {
    text: 'with wanted as materialized (',
    run(values) {
      const lists = values.filter((value) => Array.isArray(value)) as string[][];
      const [leaseId = '', , namespace = '', name = ''] = lists.map(([first]) => first);
      const home = lists.at(-1)?.[0] ?? '';
      const resource: Resource = { face: 'key', namespace, name };
      if (!database.isAtHome(resource, home)) return [];
      const asOf = leases.now();
      const granting = leases.grant(
        { ...placing(resource, leaseId), homeReservation: home },
        BELIEVED,
      );
      if ('granted' in granting) return [grantedRow(granting.granted, asOf)];
      if (!world.has('seal-before-grant')) return [];
      const { fencingToken } = granting.heldBy;
      return [grantedRow({ leaseId, fencingToken, expiresAt: asOf + MOVE_LADDER.ttlMs }, asOf)];
    },
  };
}

function grantedRow(
  of: { leaseId: string; fencingToken: string; expiresAt: number },
  asOf: number,
) {
  const none = {
    previousLeaseId: null,
    previousFencingToken: null,
    previousEnd: null,
    freeMs: null,
  };
  return { ...of, ...none, asOf, grantedAt: asOf, run: '1', position: '0/0' };
}

function placing({ face, namespace, name }: Resource, leaseId: string) {
  return {
    ...{ face, namespace, name, leaseId, holder: SYSTEM_ACTOR, principal: SYSTEM_ACTOR },
    ...{ tag: '', comment: null, metadata: null, actor: SYSTEM_ACTOR, ladder: MOVE_LADDER },
  };
}
