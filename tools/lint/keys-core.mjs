/** The folders of keys-core: what each may import, and what it takes from its caller. */
import { DRIVERS, SLICES, TESTING, TRPC_ERROR, noImportsOf } from './imports.mjs';
import { DEFAULT_EXPORT, FUNCTION_LINES, PROCESS_ENV, UNSAFE_SQL } from './syntax.mjs';

const TAGGED_SQL = {
  selector:
    'TaggedTemplateExpression[tag.property.name=/^\\$(query|execute)Raw$/], TaggedTemplateExpression[tag.name="fragment"]',
  message: 'Statements stand in sql.ts or the sql/ folder of their slice, or in postgres/.',
};
const EXPORTED_SERVICE = {
  selector: 'ExportNamedDeclaration > ClassDeclaration PrivateIdentifier.key[name="deps"]',
  message: 'Export a function that makes the service, and its interface; the class stays here.',
};
const NEW_DATE = {
  selector: 'NewExpression[callee.name="Date"][arguments.length=0]',
  message: "Time is the database's, or comes from the Clock that is passed in.",
};
const CLOCKS =
  'Use the Clock or the IdSource that is passed in, so that tests own time and chance.';

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

export const KEYS_CORE = [
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
      rules: noImportsOf([TRPC_ERROR], [TESTING, DRIVERS, ...importsOfSlice(slice, allowed)]),
    },
  ]),
  {
    files: Object.keys(SLICES).map((slice) => `libs/keys-core/src/${slice}/**/*.ts`),
    ignores: ['**/sql/**', '**/sql.ts', '**/*.test.ts'],
    rules: {
      'no-restricted-syntax': [
        'error',
        PROCESS_ENV,
        UNSAFE_SQL,
        DEFAULT_EXPORT,
        NEW_DATE,
        TAGGED_SQL,
        EXPORTED_SERVICE,
      ],
    },
  },
  {
    // A statement is one text, with what it locks and why beside each clause: it must not be split.
    files: [
      'libs/keys-core/src/grants/sql/**/*.ts',
      'libs/keys-core/src/postgres/witness/database-witness.ts',
    ],
    rules: { 'max-lines-per-function': ['error', { ...FUNCTION_LINES, max: 150 }] },
  },
];
