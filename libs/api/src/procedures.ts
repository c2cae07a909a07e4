import { roleAllows, type Role } from '@leasehold/keys-core';
import type { z } from 'zod';
import { assertRole } from './access/access.ts';
import type { BoundedInput } from './bounded-input.ts';
import { appRouter } from './app-router.ts';
import type { ProcedureMeta } from './trpc.ts';

/** What a procedure of the router was declared with. */
export interface DeclaredProcedure {
  readonly type: 'query' | 'mutation' | 'subscription';
  readonly meta?: ProcedureMeta;
  readonly inputs: readonly z.ZodType[];
}

type Declared = Omit<DeclaredProcedure, 'inputs'> & { readonly inputs: readonly BoundedInput[] };

/** All procedures, by path. tRPC keeps them flat; its type has them nested, as they were declared. */
export const PROCEDURES: ReadonlyMap<string, DeclaredProcedure> = new Map(
  Object.entries(
    appRouter._def.procedures as unknown as Record<string, { readonly _def: Declared }>,
  ).map(([path, { _def }]) => [path, { ..._def, inputs: _def.inputs.map(({ schema }) => schema) }]),
);

/**
 * For what is large: it is refused before it is read. One of several that may be called is answered by its procedure.
 * @throws {LeaseError} `auth.forbidden` for a role that may call none of these procedures.
 */
export function assertMayCallOneOf(paths: readonly string[], role: Role): void {
  const needed = paths.map((path) => PROCEDURES.get(path)?.meta?.role);
  const [first] = needed;
  const isAllowed = needed.some((one) => one === undefined || roleAllows(role, one));
  if (first !== undefined && !isAllowed) assertRole({ role }, first);
}
