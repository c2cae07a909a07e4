/** Which projects may depend on which, and which packages they may use. */

/** Which kind of project, in which scope, may depend on which. All rules that match must allow it. */
const DEPENDENCIES = {
  'type:util': ['type:util'],
  'type:domain': ['type:domain', 'type:util'],
  'type:api': ['type:api', 'type:domain', 'type:util'],
  'type:client': ['type:client', 'type:api', 'type:domain', 'type:util'],
  'type:testing': ['type:testing', 'type:client', 'type:api', 'type:domain', 'type:util'],
  'type:app': ['type:client', 'type:api', 'type:domain', 'type:util'],
  'type:e2e': ['type:testing', 'type:client', 'type:api', 'type:domain', 'type:util'],
  'scope:kit': ['scope:kit'],
  'scope:core': ['scope:core', 'scope:kit'],
  'scope:api': ['scope:api', 'scope:core', 'scope:kit'],
  'scope:client': ['scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:test': ['scope:test', 'scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:controller': ['scope:api', 'scope:core', 'scope:kit'],
  'scope:drone': ['scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:gateway': ['scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:e2e': ['scope:test', 'scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:cli': ['scope:client', 'scope:api', 'scope:core', 'scope:kit'],
  'scope:console': ['scope:api', 'scope:core', 'scope:kit'],
};

const BANNED_EXTERNALS = {
  'type:util': ['@prisma/*', '@trpc/*', 'next', 'react'],
  'type:domain': ['fastify', '@trpc/*', 'next', 'react', 'pino', 'commander'],
  'type:api': ['@prisma/*', 'pg', 'next', 'react'],
  'type:client': ['@prisma/*', 'pg', 'fastify'],
  'scope:drone': ['@prisma/*', 'pg'],
  'scope:gateway': ['@prisma/*', 'pg', 'fastify'],
  'scope:console': ['@prisma/*', 'pg', 'fastify'],
};

/** Tests may use shared test code, and call what they test from outside. */
export function boundaries({ forTests }) {
  const more = forTests ? ['type:testing', 'type:client', 'type:api'] : [];
  const moreScopes = forTests ? ['scope:test', 'scope:client', 'scope:api'] : [];
  return [
    'error',
    {
      // Commands load what they need when they run; a library is small enough to be loaded either way.
      checkDynamicDependenciesExceptions: ['.*'],
      // The tests of a library use helpers that are built on that library.
      ignoredCircularDependencies: [
        ['@leasehold/keys-core', '@leasehold/testing'],
        ['@leasehold/api', '@leasehold/testing'],
        ['@leasehold/client', '@leasehold/testing'],
      ],
      depConstraints: Object.entries(DEPENDENCIES).map(([sourceTag, allowed]) => ({
        sourceTag,
        onlyDependOnLibsWithTags: [
          ...allowed,
          ...(sourceTag.startsWith('type:') ? more : moreScopes),
        ],
        ...(BANNED_EXTERNALS[sourceTag] && !forTests
          ? { bannedExternalImports: BANNED_EXTERNALS[sourceTag] }
          : {}),
      })),
    },
  ];
}
