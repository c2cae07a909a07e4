/** Every address of the console. A name may hold any character, so it travels as a parameter. */
import { at } from './here.ts';

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
