/** What the address of a page says, as Next gives it. */
import type { ResourceRef } from './routes.ts';

type Param = string | readonly string[] | undefined;

/** What a parameter says: the first, where an address has it more than once. */
export function firstOf(param: Param): string | undefined {
  return typeof param === 'string' ? param : param?.[0];
}

/** What a detail page's address says. */
export interface ResourceParams {
  readonly searchParams: Promise<{
    readonly namespace?: Param;
    readonly name?: Param;
    readonly datacenter?: Param;
  }>;
}

/** The resource that an address names; one without a namespace is in the root. */
export function resourceOf(params: Awaited<ResourceParams['searchParams']>): ResourceRef {
  return {
    namespace: firstOf(params.namespace) ?? '',
    name: firstOf(params.name) ?? '',
    datacenter: firstOf(params.datacenter) ?? '',
  };
}

/** What the address of the page of a drone or a backend says. */
export interface IdParams {
  readonly searchParams: Promise<{ readonly id?: Param; readonly datacenter?: Param }>;
}

/** The id that an address names, and where. */
export function idOf(params: Awaited<IdParams['searchParams']>): {
  readonly id: string;
  readonly datacenter: string;
} {
  return { id: firstOf(params.id) ?? '', datacenter: firstOf(params.datacenter) ?? '' };
}
