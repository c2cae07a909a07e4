import js from '@eslint/js';
import next from '@next/eslint-plugin-next';
import nx from '@nx/eslint-plugin';
import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

const TESTS = [
  '**/*.test.ts',
  '**/*-for-test.ts',
  '**/testing/**',
  'libs/testing/**',
  'e2e/!(*.config).ts',
  'e2e/*/**/*.ts',
];

/** Which kind of project, in which scope, may depend on which. All that match must allow it. */
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
  'scope:console': ['@prisma/*', 'pg', 'fastify'],
};

/** Tests may use what tests share, and speak to what they test from outside. */
function boundaries({ forTests }) {
  const more = forTests ? ['type:testing', 'type:client', 'type:api'] : [];
  const moreScopes = forTests ? ['scope:test', 'scope:client', 'scope:api'] : [];
  return [
    'error',
    {
      // Commands load what they need when they run; a library is small enough to be loaded either way.
      checkDynamicDependenciesExceptions: ['.*'],
      // The tests of a library use what is made of that library.
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

const TRPC_ERROR = {
  name: '@trpc/server',
  importNames: ['TRPCError'],
  message: 'Throw a LeaseError: only libs/api/src/error-map.ts knows what tRPC makes of it.',
};
const DRIVERS = {
  regex: '^(@prisma/|pg$|pg/)',
  message: 'Only libs/keys-core/src/postgres opens connections to the database.',
};
const DATABASE = {
  ...DRIVERS,
  regex: '^(@prisma/|pg$|pg/)|postgres/generated',
};
/** The slices of keys-core, each with those that it may import; what none may is left out. */
const SLICES = {
  grants: [],
  events: [],
  lists: ['events'],
  access: ['grants'],
  keys: ['grants', 'lists'],
  fleet: ['access', 'lists', 'keys'],
  leases: ['grants', 'lists'],
  environments: ['grants', 'leases'],
  reservations: ['grants', 'lists', 'keys'],
  bulk: ['grants', 'keys', 'leases'],
  stats: ['events', 'access', 'fleet'],
};
const TAGGED_SQL = {
  selector:
    'TaggedTemplateExpression[tag.property.name=/^\\$(query|execute)Raw$/], TaggedTemplateExpression[tag.name="fragment"]',
  message: 'Statements stand in the sql/ folder of their slice, or in postgres/.',
};
const EXPORTED_SERVICE = {
  selector: 'ExportNamedDeclaration > ClassDeclaration PrivateIdentifier.key[name="deps"]',
  message: 'Export a function that makes the service, and its interface; the class stays here.',
};
const TESTING = {
  regex: '^@leasehold/(testing|keys-core/testing)',
  message: 'Only tests import what tests share.',
};
const STORE = [
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

const CONSOLE = [
  DATABASE,
  TESTING,
  ...STORE,
  {
    regex: '^@leasehold/api$',
    allowTypeImports: true,
    message: 'A page takes values from the contract alone: the routers stay in the controller.',
  },
];
const NEXT_LINK = {
  name: 'next/link',
  message: 'Use ui/link.tsx: it does not fetch every page that it leads to.',
};
const LOADED_WHEN_WANTED = {
  name: '@mantine/core',
  importNames: ['Menu', 'Tooltip'],
  allowTypeImports: true,
  message: 'Use LazyMenu or Tip: what draws them is loaded when somebody wants it.',
};
const CONSOLE_PATHS = [TRPC_ERROR, NEXT_LINK, LOADED_WHEN_WANTED];

/** The folders of the console: each imports only those before it. The server is a program of its own. */
const CONSOLE_LAYERS = ['lib', 'ui', 'resources', 'features', 'app'];
/** How many folders deep a feature is. */
const FEATURE_DEPTHS = [0, 1, 2];

function importsOfLayer(layer) {
  const above = [...CONSOLE_LAYERS.slice(CONSOLE_LAYERS.indexOf(layer) + 1), 'server'];
  return {
    regex: `^(~|\\.\\.(/\\.\\.)*)/(${above.join('|')})/`,
    message: `The console's ${layer} folder imports nothing of ${above.join(', ')}.`,
  };
}

/** A file so many folders below a feature leaves the feature with one step up more. */
function importsOfFeature(depth) {
  return {
    regex: `^(~/features/|${'\\.\\./'.repeat(depth + 1)})`,
    message: 'A feature imports no other feature: what several need belongs in resources or lib.',
  };
}
const ROUTE = {
  regex: '^(~/ui/|@mantine/|@tabler/|@tanstack/)',
  message: 'A route only wires: what it shows belongs in a feature.',
};

/** One rule cannot be given twice for a file, so each folder states everything that it may not import. */
function noImportsOf(paths, patterns) {
  return { '@typescript-eslint/no-restricted-imports': ['error', { paths, patterns }] };
}

/** A slice imports those below it, each through its index, which says what others may use. */
function importsOfSlice(slice, allowed) {
  const others = [...Object.keys(SLICES), 'holder', 'testing'].filter(
    (name) => name !== slice && !allowed.includes(name),
  );
  return [
    {
      regex: `^(\\.\\./)+(${others.join('|')})/`,
      message: `The slice ${slice} imports ${['kernel', 'postgres', ...allowed].join(', ')}, and no other.`,
    },
    {
      regex: `^(\\.\\./)+(${allowed.join('|') || '-'})/(?!index\\.ts$)`,
      message: 'Import another slice through its index.ts.',
    },
  ];
}

const PROCESS_ENV = {
  selector: 'MemberExpression[object.name="process"][property.name="env"]',
  message: "Only the app's config.ts reads the environment.",
};
const UNSAFE_SQL = {
  selector: 'MemberExpression[property.name=/^\\$(query|execute)RawUnsafe$/]',
  message: 'Use the tagged $queryRaw: its parameters are never text of the statement.',
};
const DEFAULT_EXPORT = {
  selector: 'ExportDefaultDeclaration',
  message: 'Export by name, so that it is called the same everywhere.',
};
const WAIT_FOR_TIMEOUT = {
  selector: 'MemberExpression[property.name="waitForTimeout"]',
  message: 'Wait for what is to happen, not for time to pass.',
};
const NEW_DATE = {
  selector: 'NewExpression[callee.name="Date"][arguments.length=0]',
  message: "Time is the database's, or comes from the Clock that is passed in.",
};
const CLOCKS =
  'Use the Clock or the IdSource that is passed in, so that tests own time and chance.';

const NODE_GLOBALS = Object.fromEntries(
  [
    ...['process', 'console', 'performance', 'Buffer', 'URL', 'fetch', 'AbortSignal'],
    ...['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'queueMicrotask'],
  ].map((name) => [name, 'readonly']),
);

const FUNCTION_LINES = { max: 70, skipBlankLines: true, skipComments: true };

export default tseslint.config(
  {
    ignores: [
      '**/dist/**',
      '**/node_modules/**',
      '**/.next/**',
      '**/next-env.d.ts',
      'libs/keys-core/src/postgres/generated/**',
      '.nx/**',
    ],
  },
  { plugins: { '@nx': nx }, linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname },
    },
    rules: {
      '@nx/enforce-module-boundaries': boundaries({ forTests: false }),
      ...noImportsOf([TRPC_ERROR], [DATABASE, TESTING]),
      'no-restricted-syntax': ['error', PROCESS_ENV, UNSAFE_SQL, DEFAULT_EXPORT],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      // Values of `Record<string, …>` are read with brackets, as the compiler asks.
      '@typescript-eslint/dot-notation': ['error', { allowIndexSignaturePropertyAccess: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-invalid-void-type': ['error', { allowAsThisParameter: true }],
      // It asks for what no-non-null-assertion forbids.
      '@typescript-eslint/non-nullable-type-assertion-style': 'off',
      // Two packages that bring the types of one class: the rule takes them for two classes.
      '@typescript-eslint/no-unsafe-class-instance-assignment': 'off',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      curly: ['error', 'multi-line'],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      'no-param-reassign': 'error',
      'max-lines': ['error', 500],
      'max-lines-per-function': ['error', FUNCTION_LINES],
      complexity: ['error', 12],
    },
  },
  {
    files: ['libs/keys-core/src/**/*.ts'],
    rules: {
      'no-restricted-syntax': ['error', PROCESS_ENV, UNSAFE_SQL, DEFAULT_EXPORT, NEW_DATE],
      'no-restricted-globals': [
        'error',
        ...['setTimeout', 'setInterval', 'setImmediate'].map((name) => ({ name, message: CLOCKS })),
      ],
      'no-restricted-properties': [
        'error',
        { object: 'Date', property: 'now', message: CLOCKS },
        { object: 'Math', property: 'random', message: CLOCKS },
        { object: 'performance', property: 'now', message: CLOCKS },
      ],
    },
  },
  {
    files: ['libs/keys-core/src/kernel/*.ts'],
    rules: noImportsOf([], [{ regex: '^(?!\\./)', message: 'The kernel imports nothing.' }]),
  },
  {
    files: ['libs/keys-core/src/kernel/*/*.ts'],
    rules: noImportsOf(
      [],
      [{ regex: '^(?!\\./|\\.\\./(?!\\.))', message: 'The kernel imports nothing.' }],
    ),
  },
  {
    files: ['libs/keys-core/src/holder/**/*.ts'],
    rules: noImportsOf(
      [],
      [{ regex: '^(?!\\./|\\.\\./kernel/)', message: 'The holder imports the kernel alone.' }],
    ),
  },
  {
    files: ['libs/keys-core/src/postgres/**/*.ts'],
    rules: noImportsOf(
      [TRPC_ERROR],
      [
        TESTING,
        {
          regex: `^(\\.\\./)+(${[...Object.keys(SLICES), 'holder', 'testing'].join('|')})/`,
          message: 'The database layer imports the kernel alone.',
        },
      ],
    ),
  },
  ...Object.entries(SLICES).flatMap(([slice, allowed]) => [
    {
      files: [`libs/keys-core/src/${slice}/**/*.ts`],
      rules: noImportsOf([TRPC_ERROR], [TESTING, DATABASE, ...importsOfSlice(slice, allowed)]),
    },
    {
      // Statements take the generated client's types.
      files: [`libs/keys-core/src/${slice}/**/sql/**/*.ts`],
      rules: noImportsOf([TRPC_ERROR], [TESTING, DRIVERS, ...importsOfSlice(slice, allowed)]),
    },
  ]),
  {
    files: Object.keys(SLICES).map((slice) => `libs/keys-core/src/${slice}/**/*.ts`),
    ignores: ['**/sql/**', '**/*.test.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        ...[PROCESS_ENV, UNSAFE_SQL, DEFAULT_EXPORT, NEW_DATE, TAGGED_SQL, EXPORTED_SERVICE],
      ],
    },
  },
  {
    // A statement is one text, with what it locks and why beside each clause: not to be cut.
    files: ['libs/keys-core/src/grants/sql/**/*.ts', 'libs/keys-core/src/postgres/witness/beat.ts'],
    rules: { 'max-lines-per-function': ['error', { ...FUNCTION_LINES, max: 150 }] },
  },
  {
    files: ['apps/drone/**/*.ts', 'libs/client/**/*.ts', 'libs/api/src/contract/**/*.ts'],
    rules: noImportsOf([TRPC_ERROR], [DATABASE, TESTING, ...STORE]),
  },
  {
    files: ['apps/console/**/*.{ts,tsx}'],
    plugins: {
      'react-hooks': reactHooks,
      'jsx-a11y': jsxA11y,
      '@next/next': next,
    },
    settings: { next: { rootDir: 'apps/console' } },
    rules: {
      ...noImportsOf(CONSOLE_PATHS, CONSOLE),
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      ...jsxA11y.flatConfigs.recommended.rules,
      // A region that scrolls must be reachable by keyboard, and what has a tooltip too.
      'jsx-a11y/no-noninteractive-tabindex': 'off',
      ...next.configs.recommended.rules,
      ...next.configs['core-web-vitals'].rules,
      '@next/next/no-html-link-for-pages': 'off',
      // A component is a template: what counts is that it says one thing.
      'max-lines-per-function': ['error', { ...FUNCTION_LINES, max: 110 }],
    },
  },
  ...CONSOLE_LAYERS.map((layer) => ({
    files: [`apps/console/src/${layer}/**/*.{ts,tsx}`],
    rules: noImportsOf(CONSOLE_PATHS, [...CONSOLE, importsOfLayer(layer)]),
  })),
  ...FEATURE_DEPTHS.map((depth) => ({
    files: [`apps/console/src/features/*/${'*/'.repeat(depth)}*.{ts,tsx}`],
    rules: noImportsOf(CONSOLE_PATHS, [
      ...CONSOLE,
      importsOfLayer('features'),
      importsOfFeature(depth),
    ]),
  })),
  {
    files: ['apps/console/src/app/**/page.tsx'],
    rules: noImportsOf(CONSOLE_PATHS, [...CONSOLE, importsOfLayer('app'), ROUTE]),
  },
  {
    files: ['apps/console/src/ui/link.tsx'],
    rules: noImportsOf([TRPC_ERROR, LOADED_WHEN_WANTED], [...CONSOLE, importsOfLayer('ui')]),
  },
  {
    files: ['apps/console/src/ui/{menus/loaded-menu,loaded-tip}.tsx'],
    rules: noImportsOf([TRPC_ERROR, NEXT_LINK], [...CONSOLE, importsOfLayer('ui')]),
  },
  {
    // Next asks for default exports here.
    files: ['apps/console/src/app/**/*.{ts,tsx}', 'apps/console/*.config.ts'],
    rules: { 'no-restricted-syntax': ['error', PROCESS_ENV, UNSAFE_SQL] },
  },
  {
    files: ['libs/api/src/error-map.ts'],
    rules: noImportsOf([], [DATABASE, TESTING]),
  },
  {
    // Who runs other programs, or a timer of the machine itself: nothing here judges a grant.
    files: [
      'libs/keys-core/src/postgres/embedded/**',
      'libs/keys-core/src/postgres/migrate/migrate*',
    ],
    ignores: ['**/supervised-postgres*'],
    rules: { 'no-restricted-globals': 'off', 'no-restricted-properties': 'off' },
  },
  {
    files: ['apps/*/src/**/config.ts', '**/*.config.ts'],
    rules: { 'no-restricted-syntax': ['error', UNSAFE_SQL] },
  },
  { files: ['apps/cli/**/*.ts'], rules: { 'no-console': 'off' } },
  {
    // Services that share the database with Leasehold have a client of their own.
    files: ['examples/use-cases/*.ts'],
    rules: noImportsOf([TRPC_ERROR], [TESTING]),
  },
  {
    files: TESTS,
    rules: {
      '@nx/enforce-module-boundaries': boundaries({ forTests: true }),
      '@typescript-eslint/no-restricted-imports': 'off',
      'no-restricted-globals': 'off',
      'no-restricted-properties': 'off',
      'no-restricted-syntax': ['error', UNSAFE_SQL, DEFAULT_EXPORT],
      'max-lines-per-function': 'off',
      'no-console': 'off',
    },
  },
  {
    files: ['e2e/**/*.ts'],
    ignores: ['**/*.config.ts'],
    rules: {
      'no-restricted-syntax': ['error', UNSAFE_SQL, DEFAULT_EXPORT, WAIT_FOR_TIMEOUT],
      // A fixture of Playwright that needs no other one is written so.
      'no-empty-pattern': 'off',
    },
  },
  {
    // Nothing here ships: it starts, breaks and measures everything else, from outside.
    files: ['tools/**'],
    rules: {
      '@nx/enforce-module-boundaries': 'off',
      '@typescript-eslint/no-restricted-imports': 'off',
      'no-restricted-syntax': ['error', DEFAULT_EXPORT],
      'no-console': 'off',
      // A fixture of Vitest that needs no other one is written so.
      'no-empty-pattern': 'off',
    },
  },
  {
    files: ['**/*.mjs'],
    extends: [tseslint.configs.disableTypeChecked],
    languageOptions: { globals: NODE_GLOBALS },
  },
);
