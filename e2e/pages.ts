import type { Seeded } from './seed/seed-realistic.ts';

/** A page of the console, and how to get there. */
export interface ConsolePage {
  /** Also the name of its picture. */
  readonly name: string;
  /** Its first heading; a detail page's is the name of what it shows. */
  readonly heading: string | RegExp;
  path(seeded: Seeded): string;
  /** Shown only when there is something to show. */
  readonly isDetail?: boolean;
}

const ref = (path: string, { namespace, name }: { namespace: string; name: string }): string =>
  `${path}?${new URLSearchParams({ namespace, name }).toString()}`;

/** The drone of which the seed has the most. */
const SEEDED_DRONE_ID = 'drone-fra-3';

/** Every page, in the order of the navigation. */
export const PAGES: readonly ConsolePage[] = [
  { name: 'overview', heading: 'Overview', path: () => '/' },
  { name: 'keys', heading: 'Keys', path: () => '/keys' },
  {
    name: 'key',
    heading: 'q4-roadmap',
    path: ({ keys }) => ref('/keys/detail', keys.busy),
    isDetail: true,
  },
  { name: 'leases', heading: 'Leases', path: () => '/leases?tab=tree' },
  { name: 'lease-list', heading: 'Leases', path: () => '/leases' },
  { name: 'waits', heading: 'Leases', path: () => '/leases?tab=waits' },
  { name: 'declared', heading: 'Leases', path: () => '/leases?tab=declared' },
  { name: 'callbacks', heading: 'Leases', path: () => '/leases?tab=callbacks' },
  {
    name: 'lease',
    heading: 'settlement-eu',
    path: ({ leases }) => ref('/leases/detail', leases.queued),
    isDetail: true,
  },
  { name: 'environments', heading: 'Environments', path: () => '/environments' },
  {
    name: 'environment',
    heading: /production/,
    path: ({ environments }) => ref('/environments/detail', environments.production),
    isDetail: true,
  },
  { name: 'reservations', heading: 'Reservations', path: () => '/reservations' },
  {
    name: 'reservation',
    heading: 'q4-roadmap',
    path: ({ travelledKey }) =>
      `/reservations/detail?${new URLSearchParams({ key: JSON.stringify(travelledKey) }).toString()}`,
    isDetail: true,
  },
  { name: 'drones', heading: 'Drones', path: () => '/drones' },
  {
    name: 'drone',
    heading: SEEDED_DRONE_ID,
    path: () => `/drones/detail?id=${SEEDED_DRONE_ID}`,
    isDetail: true,
  },
  { name: 'backends', heading: 'Backends', path: () => '/backends' },
  {
    name: 'backend',
    heading: /^bk-/,
    path: ({ backendId }) => `/backends/detail?id=${backendId}`,
    isDetail: true,
  },
  { name: 'events', heading: 'Events', path: () => '/events' },
  { name: 'configuration', heading: 'Configuration', path: () => '/configuration' },
  { name: 'refusals', heading: 'Refusals', path: () => '/refusals' },
  { name: 'audit', heading: 'Audit', path: () => '/audit' },
  { name: 'access', heading: 'Access', path: () => '/access' },
  { name: 'people', heading: 'Access', path: () => '/access?tab=people' },
];
