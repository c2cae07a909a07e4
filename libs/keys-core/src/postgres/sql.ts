/**
 * Statements with parameters, and what they are sent with. Fragments are those that Prisma's client
 * knows when they are nested; `libs/core` is built with others of the same shape, without Prisma.
 */
import { empty, join, sqltag, type Sql as Fragment } from '@prisma/client/runtime/client';

/** A part of a statement, with its parameters. Values are parameters, and never text. */
export { sqltag as fragment, type Fragment };
/** Joins parts with a separator, by default a comma. */
export { join as joinFragments };
export { empty as NO_FRAGMENT };

declare const POOL: unique symbol;

/**
 * What a statement is sent with: a pool, or a transaction on it. The signature of a statement names
 * the pools that it may run on; another one is a type error. This exists only in types: there is no property.
 */
export interface Sql<Pool extends PoolName> {
  readonly [POOL]?: Pool;
  $queryRaw<Rows = unknown>(
    query: TemplateStringsArray | Fragment,
    ...values: unknown[]
  ): Promise<Rows>;
}

/** A pool, which sends a statement, or several in one transaction. */
export interface SqlPool<Pool extends PoolName> extends Sql<Pool> {
  $transaction<Result>(work: (tx: Sql<Pool>) => Promise<Result>): Promise<Result>;
}

/** The pools of a store, see its fields. */
export type PoolName =
  'general' | 'transitions' | 'renewals' | 'vital' | 'slowLane' | 'reads' | 'guests';
