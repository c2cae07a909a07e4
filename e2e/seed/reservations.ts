import type { Subject } from './grants.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS, type Row, type World } from './world.ts';

/** A datacenter where a key has been: how long ago the key came there, and why it left. */
interface Stay {
  readonly datacenter: string;
  readonly cameAgoMs: number;
  readonly by: string;
  readonly leftBecause?: string;
}

/** Stands for the seeded datacenter; the others are only names, without a controller. */
const HERE = 'here';

interface Journey {
  readonly key: readonly string[];
  readonly stays: readonly Stay[];
}

const OPERATOR = 'ada.okafor@example.com';
const GATEWAY = 'room-gateway';

const JOURNEYS: readonly Journey[] = [
  {
    key: ['boards.eu', 'q4-roadmap'],
    stays: [
      {
        datacenter: HERE,
        cameAgoMs: 41 * DAY_MS,
        by: GATEWAY,
        leftBecause: 'Most of its writers sit in Virginia this quarter',
      },
      {
        datacenter: 'iad',
        cameAgoMs: 12 * DAY_MS,
        by: OPERATOR,
        leftBecause: 'Offsite in Berlin: closer to its writers again',
      },
      { datacenter: HERE, cameAgoMs: 3 * HOUR_MS, by: OPERATOR },
    ],
  },
  {
    key: ['rooms.eu', 'all-hands'],
    stays: [
      { datacenter: 'sin', cameAgoMs: 9 * DAY_MS, by: GATEWAY, leftBecause: 'Maintenance of sin' },
      { datacenter: HERE, cameAgoMs: 2 * DAY_MS, by: 'omar.haddad@example.com' },
    ],
  },
  {
    key: ['boards.guest', 'apac-launch'],
    stays: [
      {
        datacenter: HERE,
        cameAgoMs: 6 * DAY_MS,
        by: GATEWAY,
        leftBecause: 'All guests of this board are in Singapore',
      },
      { datacenter: 'sin', cameAgoMs: 26 * MINUTE_MS, by: OPERATOR },
    ],
  },
  {
    key: ['tenants', 'acme', 'ledger'],
    stays: [{ datacenter: HERE, cameAgoMs: 77 * DAY_MS, by: 'provisioner' }],
  },
];

/** What is written, and what tests and pictures want to find again. */
interface ReservationRows {
  /** It lives here, and has been elsewhere. */
  readonly travelled: readonly string[];
  readonly rows: readonly Row[];
  readonly homes: readonly Row[];
  readonly pointers: readonly Row[];
}

/** Reservations of the keys that the world has, and of a few that have moved. */
export function reservationsOf(
  world: World,
  here: string,
  keys: readonly Subject[],
): ReservationRows {
  const rows: Row[] = [];
  const homes: Row[] = [];
  const pointers: Row[] = [];
  const told = new Set(JOURNEYS.map(({ key }) => JSON.stringify(key)));
  const plain = keys
    .map(({ namespace, name }): Journey => ({
      key: [namespace, name],
      stays: [{ datacenter: HERE, cameAgoMs: world.chance.int(1, 900) * HOUR_MS, by: GATEWAY }],
    }))
    .filter(({ key }) => !told.has(JSON.stringify(key)));
  for (const journey of [...JOURNEYS, ...plain]) addJourney(journey);
  return { travelled: JOURNEYS[0]?.key ?? [], rows, homes, pointers };

  function addJourney({ key, stays }: Journey): void {
    const [namespace, name, ...rest] = key;
    const ids = stays.map(({ datacenter }) => `${nameOf(datacenter)}.${world.chance.uuid()}`);
    homes.push({ key: JSON.stringify(key), reservation_id: ids[0], recorded_at: world.ago(0) });
    for (const [index, { datacenter, cameAgoMs, by, leftBecause }] of stays.entries()) {
      const next = stays[index + 1];
      if (next !== undefined) {
        pointers.push({
          from_id: ids[index],
          to_id: ids[index + 1],
          token_floor: world.nowMs - next.cameAgoMs,
          recorded_at: world.ago(next.cameAgoMs),
        });
      }
      if (datacenter !== HERE) continue;
      rows.push({
        reservation_id: ids[index],
        key: JSON.stringify(key),
        namespace: rest.length === 0 ? namespace : null,
        name: rest.length === 0 ? name : null,
        state: next === undefined ? 'active' : 'moved',
        chain: ids.slice(0, index),
        activated_by: by,
        activated_at: world.ago(cameAgoMs),
        moved_at: next === undefined ? null : world.ago(next.cameAgoMs),
        moved_by: next === undefined ? null : next.by,
        move_reason: leftBecause ?? null,
      });
    }
  }

  function nameOf(datacenter: string): string {
    return datacenter === HERE ? here : datacenter;
  }
}
