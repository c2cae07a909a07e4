/**
 * A pool of connections for product code that sends SQL: each statement is recognised by its text, and
 * carried out on the model. A statement that nobody expects fails the run.
 */
import type { Pool } from '../../../libs/keys-core/src/postgres/pool.ts';
import { statementOf, type Fragment } from '../../../libs/keys-core/src/postgres/sql.ts';
import type { World } from '../engine/world.ts';
import { unused } from './model-store.ts';

/** Carries out one statement with its parameters; the rows that it returns. */
export interface Statement {
  /** A part of its text that no other statement has. */
  readonly text: string;
  readonly run: (values: readonly unknown[]) => readonly unknown[];
}

/** Takes work to the database and its answer back; one piece of work at a time is carried out there. */
export type Courier = <T>(work: () => Promise<T>) => Promise<T>;

/** Which statement a template is: found once for each place in the code. */
export class Statements {
  readonly #world: World;
  readonly #statements: readonly Statement[];
  readonly #known = new WeakMap<object, Statement>();

  constructor(world: World, statements: readonly Statement[]) {
    this.#world = world;
    this.#statements = statements;
  }

  /** A pool whose statements travel with the courier; those of a transaction travel together. */
  pool(courier: Courier): Pool<never> {
    const carryOut = (query: TemplateStringsArray | Fragment, values: unknown[]): unknown => {
      const statement = statementOf(query, values);
      return this.#find(query, statement).run(statement.values);
    };
    const inside = {
      $queryRaw: <Rows>(query: TemplateStringsArray | Fragment, ...values: unknown[]) =>
        Promise.resolve(carryOut(query, values) as Rows),
      $executeRaw: unused,
    };
    return {
      $queryRaw: <Rows>(query: TemplateStringsArray | Fragment, ...values: unknown[]) =>
        courier(() => Promise.resolve(carryOut(query, values) as Rows)),
      $executeRaw: unused,
      $transaction: (work) => courier(() => work(inside)),
      get connections() {
        return unused();
      },
      on: unused,
      reserve: () => Promise.resolve(),
      close: () => Promise.resolve(),
    };
  }

  #find(query: object, { strings }: Fragment): Statement {
    let found = this.#known.get(query);
    if (found === undefined) {
      const text = textOf(query, strings);
      const candidates = this.#statements.filter((one) => text.includes(one.text));
      found = candidates[0];
      if (found === undefined || candidates.length > 1) {
        const problem = `${String(candidates.length)} models of one statement: ${text}`;
        // Code under test may catch an error.
        this.#world.fail('the simulator knows every statement', problem);
        throw new Error(problem);
      }
      this.#known.set(query, found);
    }
    return found;
  }
}

/** The text of each template of the code: the same in every world. */
const TEXTS = new WeakMap<object, string>();

function textOf(query: object, strings: readonly string[]): string {
  const known = TEXTS.get(query);
  if (known !== undefined) return known;
  const text = strings.join('?').replaceAll(/\s+/gu, ' ');
  TEXTS.set(query, text);
  return text;
}
