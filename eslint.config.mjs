import js from '@eslint/js';
import nx from '@nx/eslint-plugin';
import tseslint from 'typescript-eslint';
import { CONSOLE } from './tools/lint/console.mjs';
import { DRIVERS, STORE, TESTING, TRPC_ERROR, noImportsOf } from './tools/lint/imports.mjs';
import { KEYS_CORE } from './tools/lint/keys-core.mjs';
import { boundaries } from './tools/lint/projects.mjs';
import {
  DEFAULT_EXPORT,
  FUNCTION_LINES,
  PROCESS_ENV,
  UNSAFE_SQL,
  WAIT_FOR_TIMEOUT,
} from './tools/lint/syntax.mjs';

const TESTS = [
  '**/*.test.ts',
  '**/*-for-test.ts',
  '**/testing/**',
  'libs/testing/**',
  'e2e/!(*.config).ts',
  'e2e/*/**/*.ts',
];

const NODE_GLOBALS = Object.fromEntries(
  [
    'process',
    'console',
    'performance',
    'Buffer',
    'URL',
    'fetch',
    'AbortSignal',
    'setTimeout',
    'clearTimeout',
    'setInterval',
    'clearInterval',
    'queueMicrotask',
  ].map((name) => [name, 'readonly']),
);

export default tseslint.config(
  {
    ignores: [
      '**/dist/**',
      'out/**',
      '**/node_modules/**',
      '**/.next/**',
      '**/.vitepress/.temp/**',
      '**/.vitepress/cache/**',
      '**/next-env.d.ts',
      'libs/keys-core/src/postgres/generated/**',
      '.nx/**',
    ],
  },
  { plugins: { '@nx': nx }, linterOptions: { reportUnusedDisableDirectives: 'error' } },
  js.configs.recommended,
  {
    files: ['**/*.ts', '**/*.tsx'],
    // Without types: the rules that need them are in .oxlintrc.json.
    extends: [tseslint.configs.strict, tseslint.configs.stylistic],
    rules: {
      '@nx/enforce-module-boundaries': boundaries({ forTests: false }),
      ...noImportsOf([TRPC_ERROR], [DRIVERS, TESTING]),
      'no-restricted-syntax': ['error', PROCESS_ENV, UNSAFE_SQL, DEFAULT_EXPORT],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-invalid-void-type': ['error', { allowAsThisParameter: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_' }],
      curly: ['error', 'multi-line'],
      eqeqeq: ['error', 'always', { null: 'ignore' }],
      'no-console': 'error',
      'no-param-reassign': 'error',
      'max-lines-per-function': ['error', FUNCTION_LINES],
      complexity: ['error', 12],
    },
  },
  ...KEYS_CORE,
  {
    files: ['apps/{drone,gateway}/**/*.ts', 'libs/client/**/*.ts', 'libs/api/src/contract/**/*.ts'],
    rules: noImportsOf([TRPC_ERROR], [DRIVERS, TESTING, ...STORE]),
  },
  ...CONSOLE,
  {
    // Next asks for default exports here.
    files: [
      'apps/console/src/app/**/*.{ts,tsx}',
      'apps/console/*.config.ts',
      'examples/next-cron/app/**/*.tsx',
      'examples/next-cron/*.config.ts',
    ],
    rules: { 'no-restricted-syntax': ['error', PROCESS_ENV, UNSAFE_SQL] },
  },
  {
    files: ['libs/api/src/error-map.ts'],
    rules: noImportsOf([], [DRIVERS, TESTING]),
  },
  {
    // Files that run other programs, or use a timer of the machine: nothing here judges a grant.
    files: ['libs/keys-core/src/postgres/embedded/**', 'libs/keys-core/src/postgres/migrate*'],
    rules: { 'no-restricted-globals': 'off', 'no-restricted-properties': 'off' },
  },
  {
    // Next itself reads which runtime it is in, where it builds `instrumentation.ts`.
    files: [
      'apps/*/src/**/config.ts',
      'libs/client/src/config.ts',
      '**/*.config.ts',
      'examples/next-cron/config.ts',
      'examples/next-cron/instrumentation.ts',
    ],
    rules: { 'no-restricted-syntax': ['error', UNSAFE_SQL] },
  },
  { files: ['apps/cli/**/*.ts'], rules: { 'no-console': 'off' } },
  {
    // Services that share the database with Leasehold have a client of their own.
    files: ['examples/use-cases/*.ts', 'examples/next-cron/**/*.{ts,tsx}'],
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
      // A Playwright fixture that needs no other fixture is written with an empty pattern.
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
      // A Vitest fixture that needs no other fixture is written with an empty pattern.
      'no-empty-pattern': 'off',
    },
  },
  {
    // Describes all programs from outside; nothing that it imports ships with it.
    files: ['apps/docs/**/*.ts'],
    rules: {
      '@nx/enforce-module-boundaries': 'off',
      'no-restricted-syntax': ['error', DEFAULT_EXPORT],
    },
  },
  {
    // Only tests: what they test is copied into pipelines. They read blocks of pages as tools do.
    files: ['integrations/**/*.ts'],
    rules: { '@nx/enforce-module-boundaries': 'off' },
  },
  {
    // VitePress asks for default exports here.
    files: ['apps/docs/.vitepress/**/*.ts'],
    rules: { 'no-restricted-syntax': 'off' },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: { globals: NODE_GLOBALS },
  },
);
