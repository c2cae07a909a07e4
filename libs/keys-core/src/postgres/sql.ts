/**
 * Statements with parameters, and what they are sent with. Fragments are those that Prisma's client
 * knows when they are nested; `libs/core` is built with others of the same shape, without Prisma.
 */
import { empty, join, sqltag, type Sql as Fragment } from '@prisma/client/runtime/client';

/** A part of a statement, with its parameters. Values are parameters, and never text. */
export { sqltag as fragment, type Fragment };
/** Parts with a separator between, a comma unless another is given. */
export { join as joinFragments };
export { empty as NO_FRAGMENT };

/** What a statement is sent with: a client, or a transaction of it. */
export interface Sql {
  $queryRaw<Rows = unknown>(
    query: TemplateStringsArray | Fragment,
    ...values: unknown[]
  ): Promise<Rows>;
}
