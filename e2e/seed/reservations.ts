import { grouped, msOf, table, words } from './table.ts';
import { HOUR_MS, type World } from './world.ts';

/** Stands for the seeded datacenter; the others are only names, without a controller. */
const HERE = 'here';
const GATEWAY = 'room-gateway';

/** Where keys have been, in order: how long ago each came there, and why it left. */
const STAYS = table(
  ['key', 'datacenter', 'came', 'by', 'left'],
  `
  boards.eu q4-roadmap     | here | 41d | room-gateway            | Most of its writers sit in Virginia this quarter
  boards.eu q4-roadmap     | iad  | 12d | ada.okafor@example.com  | Offsite in Berlin: closer to its writers again
  boards.eu q4-roadmap     | here | 3h  | ada.okafor@example.com  |
  rooms.eu all-hands       | sin  | 9d  | room-gateway            | Maintenance of sin
  rooms.eu all-hands       | here | 2d  | omar.haddad@example.com |
  boards.guest apac-launch | here | 6d  | room-gateway            | All guests of this board are in Singapore
  boards.guest apac-launch | sin  | 26m | ada.okafor@example.com  |
  tenants acme ledger      | here | 77d | provisioner             |`,
);

/** A stay of one of the {@link STAYS}, or of a key that has been nowhere else. */
interface Stay {
  readonly datacenter: string;
  readonly cameAgoMs: number;
  readonly by: string;
  readonly left: string;
}

/**
 * Puts reservations of the keys that the world has into it, and of a few that have moved.
 * @returns the key that lives here, and has been elsewhere.
 */
export function addReservations(world: World, here: string): readonly string[] {
  const stays = STAYS.map((stay) => ({ ...stay, cameAgoMs: msOf(stay.came) }));
  const journeys = new Map<string, readonly Stay[]>(grouped(stays, ({ key }) => key));
  for (const { face, namespace, name } of world.rowsOf('lease')) {
    if (face !== 'key') continue;
    const key = `${String(namespace)} ${String(name)}`;
    const cameAgoMs = world.chance.int(1, 900) * HOUR_MS;
    const stay = { datacenter: HERE, cameAgoMs, by: GATEWAY, left: '' };
    if (!journeys.has(key)) journeys.set(key, [stay]);
  }
  for (const [key, ofKey] of journeys) addJourney(world, { here, key: words(key), stays: ofKey });
  return words(STAYS[0]?.key ?? '');
}

function addJourney(
  world: World,
  { here, key, stays }: { here: string; key: readonly string[]; stays: readonly Stay[] },
): void {
  const [namespace, name, ...rest] = key;
  const named = rest.length === 0 ? { namespace, name } : {};
  const nameOf = (datacenter: string): string => (datacenter === HERE ? here : datacenter);
  const ids = stays.map(({ datacenter }) => `${nameOf(datacenter)}.${world.chance.uuid()}`);
  const json = JSON.stringify(key);
  world.add('reservation_home', {
    key: json,
    reservation_id: ids[0],
    recorded_at: world.ago(0),
  });
  for (const [index, { datacenter, cameAgoMs, by, left }] of stays.entries()) {
    const next = stays[index + 1];
    if (next !== undefined) {
      world.add('reservation_pointer', {
        from_id: ids[index],
        to_id: ids[index + 1],
        token_floor: world.nowMs - next.cameAgoMs,
        recorded_at: world.ago(next.cameAgoMs),
      });
    }
    if (datacenter !== HERE) continue;
    world.add('reservation', {
      ...named,
      reservation_id: ids[index],
      key: json,
      state: next === undefined ? 'active' : 'moved',
      chain: ids.slice(0, index),
      activated_by: by,
      activated_at: world.ago(cameAgoMs),
      moved_at: next === undefined ? null : world.ago(next.cameAgoMs),
      moved_by: next?.by ?? null,
      move_reason: left === '' ? null : left,
    });
  }
}
