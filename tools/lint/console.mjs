/** The folders of the console: what each may import, and the rules for its pages. */
import next from '@next/eslint-plugin-next';
import jsxA11y from 'eslint-plugin-jsx-a11y';
import reactHooks from 'eslint-plugin-react-hooks';
import { DRIVERS, STORE, TESTING, TRPC_ERROR, noImportsOf } from './imports.mjs';
import { FUNCTION_LINES } from './syntax.mjs';

const CONSOLE_IMPORTS = [
  DRIVERS,
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
  message: 'Use Link of ui/text.tsx: it does not fetch every page that it leads to.',
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

/** A file this many folders below a feature leaves the feature with one more step up. */
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

export const CONSOLE = [
  {
    files: ['apps/console/**/*.{ts,tsx}'],
    plugins: {
      'react-hooks': reactHooks,
      'jsx-a11y': jsxA11y,
      '@next/next': next,
    },
    settings: { next: { rootDir: 'apps/console' } },
    rules: {
      ...noImportsOf(CONSOLE_PATHS, CONSOLE_IMPORTS),
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      ...jsxA11y.flatConfigs.recommended.rules,
      // A region that scrolls or has a tooltip must be reachable by keyboard.
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
    rules: noImportsOf(CONSOLE_PATHS, [...CONSOLE_IMPORTS, importsOfLayer(layer)]),
  })),
  ...FEATURE_DEPTHS.map((depth) => ({
    files: [`apps/console/src/features/*/${'*/'.repeat(depth)}*.{ts,tsx}`],
    rules: noImportsOf(CONSOLE_PATHS, [
      ...CONSOLE_IMPORTS,
      importsOfLayer('features'),
      importsOfFeature(depth),
    ]),
  })),
  {
    files: ['apps/console/src/app/**/page.tsx'],
    rules: noImportsOf(CONSOLE_PATHS, [...CONSOLE_IMPORTS, importsOfLayer('app'), ROUTE]),
  },
  {
    files: ['apps/console/src/ui/text.tsx'],
    rules: noImportsOf(
      [TRPC_ERROR, LOADED_WHEN_WANTED],
      [...CONSOLE_IMPORTS, importsOfLayer('ui')],
    ),
  },
  {
    files: ['apps/console/src/ui/floating.tsx'],
    rules: noImportsOf([TRPC_ERROR, NEXT_LINK], [...CONSOLE_IMPORTS, importsOfLayer('ui')]),
  },
];
