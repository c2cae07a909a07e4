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
  'one-permit-too-many': { where: 'lines', text: 'one more holds a key than there are permits' },
  'reader-beside-writer': { where: 'lines', text: 'a lease that one holds alone is shared' },
  'half-of-all': { where: 'lines', text: 'of several leases those that are free are granted' },
  'superseded-still-runs': {
    where: 'lines',
    text: 'what a newer request supersedes is renewed further on',
  },
  'frozen-yet-granted': { where: 'lines', text: 'a frozen environment is granted' },
} as const satisfies Record<string, Plant>;

interface Plant {
  readonly where: 'holders' | 'drones' | 'lines';
  readonly text: string;
}

export type PlantName = keyof typeof PLANTS;
export const PLANT_NAMES = Object.keys(PLANTS) as PlantName[];
