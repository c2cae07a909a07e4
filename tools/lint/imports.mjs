/** Imports that are restricted in more than one folder. */

export const TRPC_ERROR = {
  name: '@trpc/server',
  importNames: ['TRPCError'],
  message: 'Throw a LeaseError: only libs/api/src/error-map.ts knows what tRPC makes of it.',
};
export const DRIVERS = {
  regex: '^(@prisma/|pg$|pg/)',
  message: 'Only libs/keys-core/src/postgres opens connections to the database.',
};
/** The slices of keys-core, each with the other slices that it may import. */
export const SLICES = {
  grants: [],
  events: [],
  lists: ['events'],
  access: ['grants'],
  keys: ['access', 'grants', 'lists'],
  fleet: ['access', 'lists', 'keys'],
  gateway: ['access', 'grants', 'keys'],
  leases: ['access', 'grants', 'lists'],
  reservations: ['access', 'grants', 'lists', 'keys'],
  bulk: ['access', 'grants', 'keys', 'leases'],
  search: ['lists', 'fleet'],
  stats: ['events', 'lists', 'access', 'fleet', 'keys', 'leases'],
};
export const TESTING = {
  regex: '^@leasehold/(testing|keys-core/testing)',
  message: 'Only tests import what tests share.',
};
export const STORE = [
  {
    regex: '^@leasehold/keys-core/postgres$',
    message: 'This never sees the database: it speaks to a controller.',
  },
  {
    regex: `^@leasehold/keys-core/(${Object.keys(SLICES).join('|')})$`,
    allowTypeImports: true,
    message: 'This never sees the database: of a slice it imports only types.',
  },
];

/** One rule cannot be given twice for a file, so each folder states everything that it may not import. */
export function noImportsOf(paths, patterns) {
  return { '@typescript-eslint/no-restricted-imports': ['error', { paths, patterns }] };
}
