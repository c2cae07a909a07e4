/** Every address of the console. A name may hold any character, so it travels as a parameter. */

export interface ResourceRef {
  readonly namespace: string;
  readonly name: string;
  /** Its datacenter; by default this controller's. */
  readonly datacenter?: string | undefined;
}

function withParams(path: string, params: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== ''),
  ).toString();
  return text === '' ? path : `${path}?${text}`;
}

function detail(path: string, { namespace, name, datacenter }: ResourceRef): string {
  return withParams(path, { namespace, name, ...at(datacenter) });
}

export const routes = {
  signIn: (next?: string) => withParams('/sign-in', { next: next ?? '' }),
  overview: '/',
  /** Files beside the pages, for everybody. */
  documentation: '/docs/',
  keys: (params: Readonly<Record<string, string>> = {}) => withParams('/keys', params),
  key: (ref: ResourceRef) => detail('/keys/detail', ref),
  leases: (params: Readonly<Record<string, string>> = {}) => withParams('/leases', params),
  lease: (ref: ResourceRef) => detail('/leases/detail', ref),
  environments: (params: Readonly<Record<string, string>> = {}) =>
    withParams('/environments', params),
  environment: (ref: ResourceRef) => detail('/environments/detail', ref),
  drones: (params: Readonly<Record<string, string>> = {}) => withParams('/drones', params),
  reservations: (params: Readonly<Record<string, string>> = {}) =>
    withParams('/reservations', params),
  /** A reserved list of strings is JSON in the address: `["a/b"]` is not `["a","b"]`. */
  reservation: (key: readonly string[]) =>
    withParams('/reservations/detail', { key: JSON.stringify(key) }),
  drone: (droneId: string, datacenter?: string) =>
    withParams('/drones/detail', { id: droneId, ...at(datacenter) }),
  backends: (params: Readonly<Record<string, string>> = {}) => withParams('/backends', params),
  backend: (backendId: string, datacenter?: string) =>
    withParams('/backends/detail', { id: backendId, ...at(datacenter) }),
  events: (params: Readonly<Record<string, string>> = {}) => withParams('/events', params),
  refusals: (params: Readonly<Record<string, string>> = {}) => withParams('/refusals', params),
  audit: (params: Readonly<Record<string, string>> = {}) => withParams('/audit', params),
  configuration: '/configuration',
  access: (params: Readonly<Record<string, string>> = {}) => withParams('/access', params),
} as const;

/** The page of the resource with this face and name. */
export function routeOf(face: string, ref: ResourceRef): string {
  if (face === 'key') return routes.key(ref);
  return face === 'lease' ? routes.lease(ref) : routes.environment(ref);
}

/** The address of a list as a file, with the filters that are in force. Pure. */
export type ExportedList = 'keys' | 'leases' | 'environments' | 'reservations' | 'events' | 'audit';

/** The input for one page of a list, which is not a filter. */
const NO_FILTERS = ['cursor', 'limit'];
const ORDER = ['sort', 'direction'];
/** What is renewed while all pages are read has another place in this order, and would be missing or there twice. */
export const MOVING_SORT = 'expiresAt';

/** `/export/keys?format=csv&prefix=room-`. `input` is the input of the list's procedure. */
export function exportAddress(
  list: ExportedList,
  format: 'csv' | 'json',
  input: Readonly<Record<string, unknown>>,
): string {
  const params = new URLSearchParams({ format });
  const leftOut = input['sort'] === MOVING_SORT ? [...NO_FILTERS, ...ORDER] : NO_FILTERS;
  for (const [field, value] of Object.entries(input)) {
    if (value === undefined || value === null || leftOut.includes(field)) continue;
    params.set(field, textOf(value));
  }
  return `/export/${list}?${params.toString()}`;
}

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

// The parameters of a page's address, as Next gives them.

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

/**
 * The datacenter of the console's own controller, so that addresses and calls name a datacenter only
 * where it is another one: with a single datacenter they never name it.
 */
let here: string | undefined;

/** Set once the session is known. */
export function setHere(datacenter: string): void {
  here = datacenter;
}

/** The datacenter as a call or an address names it: not at all, if it is this controller's. */
export function at(datacenter: string | null | undefined): { readonly datacenter?: string } {
  if (datacenter === undefined || datacenter === null || datacenter === '') return {};
  return datacenter === here ? {} : { datacenter };
}

/** The datacenter input of a list, from what the address chooses; the same on the server. Pure. */
export function listedDatacenters(
  chosen: string | null,
  isSeveral: boolean,
): { readonly datacenter?: string } {
  if (chosen !== null) return { datacenter: chosen };
  return isSeveral ? { datacenter: 'all' } : {};
}
