/** The parameters of a page's address, as Next gives them. */
import type { ResourceRef } from './routes.ts';

type Param = string | readonly string[] | undefined;

/** The value of a parameter: the first, if an address has several. */
export function firstOf(param: Param): string | undefined {
  return typeof param === 'string' ? param : param?.[0];
}

/** The parameters of a detail page's address. */
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

/** The parameters of the address of a drone's or a backend's page. */
export interface IdParams {
  readonly searchParams: Promise<{ readonly id?: Param; readonly datacenter?: Param }>;
}

/** The id in an address, and its datacenter. */
export function idOf(params: Awaited<IdParams['searchParams']>): {
  readonly id: string;
  readonly datacenter: string;
} {
  return { id: firstOf(params.id) ?? '', datacenter: firstOf(params.datacenter) ?? '' };
}
