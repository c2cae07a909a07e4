/**
 * What is done before zod looks at an input: zod looks at all of it, however wrong it is, and notes each
 * problem. An input with a field that is not known, or with a list that is too long, is refused at the first,
 * without a look at the rest. A list of thousands is checked in parts, over turns of the event loop.
 */
import { z, type core } from 'zod';

/** A caller that sent a thousand wrong fields learns of the first few. */
export const PROBLEMS_MAX = 10;
/** So many items of a list are checked in one turn of the event loop: a few milliseconds, and more if they are wrong. */
const PART_ITEMS = 1_000;

type Issue = core.$ZodIssue;
type Path = PropertyKey[];
/** Finds the first thing that makes a value too large to be checked. */
type Look = (value: unknown, path: Path) => Issue | undefined;

/** An input for tRPC, which is checked by its schema at a cost that its bounds limit. */
export interface BoundedInput<Schema extends z.ZodType = z.ZodType> {
  /** tRPC takes the types from these two. There are no such values. */
  readonly _input: z.input<Schema>;
  readonly _output: z.output<Schema>;
  readonly schema: Schema;
  /**
   * At once, or for a long list later.
   * @throws {z.ZodError} with {@link PROBLEMS_MAX} issues at most.
   */
  parse(value: unknown): z.output<Schema> | Promise<z.output<Schema>>;
}

export function bounded<Schema extends z.ZodType>(schema: Schema): BoundedInput<Schema> {
  return new Bounded(schema);
}

class Bounded<Schema extends z.ZodType> implements BoundedInput<Schema> {
  declare readonly _input: z.input<Schema>;
  declare readonly _output: z.output<Schema>;
  readonly schema: Schema;
  readonly #look: Look;
  readonly #lists: readonly LongList<Schema>[];

  constructor(schema: Schema) {
    this.schema = schema;
    this.#look = lookOf(schema);
    this.#lists = longListsOf(schema);
  }

  parse(value: unknown): z.output<Schema> | Promise<z.output<Schema>> {
    const issue = this.#look(value, []);
    if (issue !== undefined) throw new z.ZodRealError([issue]);
    const long = this.#lists.find(({ name }) => itemsIn(value, name).length > PART_ITEMS);
    return long === undefined ? checked(this.schema, value) : checkedInParts(long, value);
  }
}

/** @throws {z.ZodError} whose issues are at `path`, and behind the first `skipped` items there. */
function checked<Schema extends z.ZodType>(
  schema: Schema,
  value: unknown,
  at: { readonly path: Path; readonly skipped: number } = { path: [], skipped: 0 },
): z.output<Schema> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const issues = result.error.issues.slice(0, PROBLEMS_MAX);
  throw new z.ZodRealError(issues.map((issue) => ({ ...issue, path: moved(issue.path, at) })));
}

function moved(
  [first, ...rest]: Path,
  { path, skipped }: { readonly path: Path; readonly skipped: number },
): Path {
  if (first === undefined) return path;
  return [...path, typeof first === 'number' ? first + skipped : first, ...rest];
}

/** A field that may have more items than one turn checks. */
interface LongList<Schema extends z.ZodType> {
  readonly name: string;
  /** Checks some of its items. */
  readonly part: z.ZodArray;
  /** Checks all of the object but the items. */
  readonly rest: Schema;
}

function longListsOf<Schema extends z.ZodType>(schema: Schema): LongList<Schema>[] {
  const whole: z.ZodType = schema;
  if (!(whole instanceof z.ZodObject)) return [];
  return Object.entries<core.$ZodType>(whole.shape).flatMap(([name, field]) => {
    if (!(field instanceof z.ZodArray) || listMaximum(field) <= PART_ITEMS) return [];
    const list = field.clone({ ...field.def, element: z.any() });
    const rest = whole.clone({ ...whole.def, shape: { ...whole.shape, [name]: list } });
    return [{ name, part: z.array(field.element), rest: rest as z.ZodType as Schema }];
  });
}

function itemsIn(value: unknown, name: string): readonly unknown[] {
  const items: unknown = (value as Record<string, unknown> | null | undefined)?.[name];
  return Array.isArray(items) ? items : [];
}

async function checkedInParts<Schema extends z.ZodType>(
  { name, part, rest }: LongList<Schema>,
  value: unknown,
): Promise<z.output<Schema>> {
  const items = itemsIn(value, name);
  const done: unknown[] = [];
  for (let skipped = 0; skipped < items.length; skipped += PART_ITEMS) {
    const some = items.slice(skipped, skipped + PART_ITEMS);
    done.push(...checked(part, some, { path: [name], skipped }));
    await nextTurn();
  }
  return checked(rest, { ...(value as object), [name]: done });
}

const nothing: Look = () => undefined;

function lookOf(schema: z.core.$ZodType): Look {
  const known = schema as z.ZodType;
  if (known instanceof z.ZodObject) return lookAtObject(known);
  if (known instanceof z.ZodArray) return lookAtList(known);
  if (known instanceof z.ZodUnion) return firstOf(known.options.map(lookOf), known);
  if (known instanceof z.ZodPipe) return lookOf(known.def.in);
  return 'innerType' in known.def ? lookOf(known.def.innerType as z.ZodType) : nothing;
}

function lookAtObject(schema: z.ZodObject): Look {
  const isStrict = schema.def.catchall instanceof z.ZodNever;
  const shape = Object.entries<core.$ZodType>(schema.shape);
  const fields = new Map(shape.map(([name, field]) => [name, lookOf(field)]));
  return (value, path) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined;
    for (const name in value) {
      const look = fields.get(name) ?? nothing;
      if (isStrict && !fields.has(name)) return unknownField(name, path);
      if (look === nothing) continue;
      const issue = look((value as Record<string, unknown>)[name], [...path, name]);
      if (issue !== undefined) return issue;
    }
    return undefined;
  };
}

function lookAtList(schema: z.ZodArray): Look {
  const countMax = listMaximum(schema);
  const look = lookOf(schema.element);
  return (value, path) => {
    if (!Array.isArray(value)) return undefined;
    if (value.length > countMax) return tooLong(countMax, path);
    if (look === nothing) return undefined;
    for (const [index, item] of value.entries()) {
      const issue = look(item, [...path, index]);
      if (issue !== undefined) return issue;
    }
    return undefined;
  };
}

/** How many items a list may have at most. @throws {Error} for a schema without a bound. */
function listMaximum({ def }: z.ZodArray): number {
  for (const { _zod: check } of def.checks ?? []) {
    const { maximum } = check.def as { readonly maximum?: number };
    if (check.def.check === 'max_length' && maximum !== undefined) return maximum;
  }
  throw new Error('a list of an input needs a bound');
}

/** Only one alternative can fit: what is too large for each of those that look at such a value is too large. */
function firstOf(looks: readonly Look[], { options }: z.ZodUnion): Look {
  const lists = looks.filter((_look, index) => options[index] instanceof z.ZodArray);
  return (value, path) => {
    const issues = Array.isArray(value) ? lists.map((look) => look(value, path)) : [];
    return issues.every((issue) => issue !== undefined) ? issues[0] : undefined;
  };
}

function unknownField(name: string, path: Path): Issue {
  return { code: 'unrecognized_keys', keys: [name], path, message: 'is not a known field' };
}

function tooLong(maximum: number, path: Path): Issue {
  const message = `Too big: expected array to have <=${String(maximum)} items`;
  return { code: 'too_big', origin: 'array', maximum, inclusive: true, path, message };
}

// Spreads the many things of one message over turns of the event loop, so that what others send is read in
// between.

/** How many items or calls one turn begins: each takes up to a tenth of a millisecond, and more if it is wrong. */
const BEGUN_IN_A_TURN = 100;

/**
 * Call it before each of many things. Undefined: go on at once, and do not await it, because each `await` puts what
 * follows behind all others of the turn.
 */
export type Turns = () => Promise<void> | undefined;

export function createTurns(): Turns {
  let count = 0;
  let mine: Promise<void> | undefined;
  return () => {
    if (count > 0 && count % BEGUN_IN_A_TURN === 0) {
      mine = (mine ?? Promise.resolve()).then(nextTurn);
    }
    count += 1;
    return mine;
  };
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}
