/**
 * Defects that the simulator must find. Each takes the place of one decision at one seam, and nothing in
 * the product changes. `where` is the kind of world in which it is looked for.
 */
export const PLANTS = {
  'renewal-revives': { where: 'holders', text: 'a renewal extends a grant that has expired' },
  'deadline-from-reply': {
    where: 'holders',
    text: 'deadlines are counted from the arrival of an answer, not from its request',
  },
  'token-from-clock': {
    where: 'holders',
    text: 'a token is the database clock alone, without the token before',
  },
  'jump-believed': {
    where: 'holders',
    text: 'an expiry is believed although nobody has watched the database clock',
  },
  'waiter-overtakes': {
    where: 'queue',
    text: 'a ticket is granted although an earlier live one waits',
  },
  'ticket-immortal': { where: 'queue', text: 'the ticket of a dead waiter never lapses' },
  'giving-up-forgotten': {
    where: 'queue',
    text: 'a request that was given up is granted when it arrives late',
  },
  'late-release-frees': { where: 'queue', text: 'a release ends the newest grant, not its own' },
  'warden-trusts-wall-clock': {
    where: 'drones',
    text: 'the warden judges deadlines by the wall clock',
  },
  'launch-outlives-agent': {
    where: 'drones',
    text: 'a launch goes on when another agent takes command of the warden',
  },
  'leash-missing': { where: 'drones', text: 'a warden that is stopped has no leash' },
  'kill-unanswered': {
    where: 'drones',
    text: 'the warden believes that a backend is gone when it has sent the kill',
  },
  'seal-before-grant': {
    where: 'homes',
    text: 'a move seals the row without being granted the key',
  },
  'left-home-grants': { where: 'homes', text: 'a datacenter grants a key that has left it' },
  'home-overwritten': {
    where: 'homes',
    text: 'the reservation store takes a second first reservation',
  },
  'nearby-nothing-believed': {
    where: 'homes',
    text: 'a "nothing" of a replica that is behind is believed',
  },
  'given-up-at-once': {
    where: 'homes',
    text: 'the keys of a lost datacenter get other homes before its grants are over',
  },
  'token-floor-lost': {
    where: 'homes',
    text: 'the new home does not learn the token floor of the pointer',
  },
} as const satisfies Record<string, Plant>;

interface Plant {
  readonly where: 'holders' | 'queue' | 'drones' | 'homes';
  readonly text: string;
}

export type PlantName = keyof typeof PLANTS;
export const PLANT_NAMES = Object.keys(PLANTS) as PlantName[];
