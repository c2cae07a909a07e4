import type { ResourceRef } from '~/lib/routes.ts';

type Param = string | string[] | undefined;

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
    namespace: first(params.namespace),
    name: first(params.name),
    datacenter: first(params.datacenter),
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
  return { id: first(params.id), datacenter: first(params.datacenter) };
}

function first(param: Param): string {
  return (Array.isArray(param) ? param[0] : param) ?? '';
}
