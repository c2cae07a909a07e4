/** Values that a caller may send in place of a right one, by mistake or on purpose. All are JSON. */

const cursor = (...place: unknown[]): string =>
  Buffer.from(JSON.stringify(place)).toString('base64url');

const HUGE_ID = '9'.repeat(18);
const ID_FORM = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Cursors that no list has returned, in the forms that lists return. */
const CURSORS = [
  cursor(HUGE_ID),
  cursor('-1'),
  cursor('9999-12-31T23:59:59.999Z', 'x'),
  cursor('2030-02-30T00:00:00.000Z', ID_FORM),
  cursor('0001-01-01T00:00:00.000Z', ID_FORM),
  cursor('8640000000000000', 'a', 'b'),
  cursor('', '\u{d800}', 'x'),
  cursor('', 'a\0', 'x'),
  cursor('id desc', '9'.repeat(15), HUGE_ID),
  cursor('at asc', '9'.repeat(15), HUGE_ID),
  cursor('local', cursor(HUGE_ID)),
  cursor({}, null),
  Buffer.from('{"__proto__":1}').toString('base64url'),
];

const INSTANTS = [
  '9999-12-31T23:59:59.9999999Z',
  '9999-12-31T23:59:59.999Z',
  `2030-01-31T12:00:00.${'1'.repeat(130)}Z`,
  '2030-01-31T12:00:00.000000001Z',
  '0001-01-01T00:00:00Z',
  '0000-01-01T00:00:00Z',
  '2030-02-30T00:00:00Z',
  '2030-12-31T23:59:60Z',
  '2030-01-31T12:00:00+24:00',
  '294277-01-01T00:00:00Z',
  'infinity',
];

const TEXTS = [
  '',
  'a\0b',
  'a\u{d800}',
  'a/b',
  'a..b',
  '{1,2}',
  '0',
  '-1',
  '9223372036854775808',
  '999999999.9223372036854775807',
  ID_FORM,
  '\u{1f511}'.repeat(2_000),
];

/** Numbers as JSON texts, where JavaScript would write other ones. */
const NUMBERS = [
  '0',
  '-0',
  '-1',
  '0.5',
  '1e3',
  '1E-400',
  '1e400',
  '1e308',
  '2147483648',
  '9007199254740991',
  '9223372036854775808',
  '8640000000000001',
];

/** Values that are neither a text nor a number. */
const OTHERS = ['null', '[]', '{}'];

/** For fields that take other values than texts and numbers. */
const NESTED = [
  '{"__proto__":{"a":1}}',
  '["\\ud800"]',
  '{"a\\u0000":1}',
  '1e400',
  '""',
  `${'['.repeat(60)}${']'.repeat(60)}`,
];

const asJson = (texts: readonly string[]): string[] => texts.map((text) => JSON.stringify(text));

/** What a field is sent in place of a right value: more of the kind that it takes, and some of others. */
function oddValuesFor(field: string, value: unknown): readonly string[] {
  if (typeof value === 'number') return [...NUMBERS, '"1"', ...OTHERS];
  if (typeof value !== 'string') return [...OTHERS, ...NESTED];
  if (field.endsWith('cursor')) return asJson([...CURSORS, ...TEXTS]);
  const isInstant = /^\d{4}-/u.test(value);
  return [...asJson(isInstant ? INSTANTS : TEXTS), ...OTHERS, '1'];
}

const PLACEHOLDER = '@odd@';

/** An input in which one field has an odd value. */
export interface OddInput {
  readonly what: string;
  readonly json: string;
}

/** A right input without its cursor: a wrong one would keep everything else from being checked. */
export function withoutCursor(input: object): object {
  return { ...input, cursor: undefined };
}

/** One for each odd value of each field of a right input, nested fields included. */
export function oddInputs(input: object): OddInput[] {
  return fieldsOf(input).flatMap(({ path, value }) => {
    const field = path.join('.');
    const base = field === 'cursor' ? input : withoutCursor(input);
    const around = JSON.stringify(replaced(base, path));
    return oddValuesFor(field, value).map((odd) => ({
      what: `${field} = ${odd.slice(0, 60)}`,
      json: around.replace(`"${PLACEHOLDER}"`, () => odd),
    }));
  });
}

function fieldsOf(value: unknown): { path: string[]; value: unknown }[] {
  if (typeof value !== 'object' || value === null) return [{ path: [], value }];
  const inner = Object.entries(value).flatMap(([name, part]) =>
    fieldsOf(part).map((field) => ({ ...field, path: [name, ...field.path] })),
  );
  return [{ path: [], value }, ...inner];
}

function replaced(value: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return PLACEHOLDER;
  if (Array.isArray(value)) {
    return value.map((part: unknown, at) => (String(at) === name ? replaced(part, rest) : part));
  }
  const fields = value as Readonly<Record<string, unknown>>;
  return { ...fields, [name]: replaced(fields[name], rest) };
}
