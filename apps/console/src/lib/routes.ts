/** Every address of the console. A name may hold any character, so it travels as a parameter. */
export interface ResourceRef {
  readonly namespace: string;
  readonly name: string;
}

function withParams(path: string, params: Readonly<Record<string, string>>): string {
  const text = new URLSearchParams(
    Object.entries(params).filter(([, value]) => value !== ''),
  ).toString();
  return text === '' ? path : `${path}?${text}`;
}

export const routes = {
  signIn: (next?: string) => withParams('/sign-in', { next: next ?? '' }),
  overview: '/',
  keys: (params: Readonly<Record<string, string>> = {}) => withParams('/keys', params),
  key: (ref: ResourceRef) =>
    withParams('/keys/detail', { namespace: ref.namespace, name: ref.name }),
  leases: (params: Readonly<Record<string, string>> = {}) => withParams('/leases', params),
  lease: (ref: ResourceRef) =>
    withParams('/leases/detail', { namespace: ref.namespace, name: ref.name }),
  environments: (params: Readonly<Record<string, string>> = {}) =>
    withParams('/environments', params),
  environment: (ref: ResourceRef) =>
    withParams('/environments/detail', { namespace: ref.namespace, name: ref.name }),
  drones: (params: Readonly<Record<string, string>> = {}) => withParams('/drones', params),
  drone: (droneId: string) => withParams('/drones/detail', { id: droneId }),
  backends: (params: Readonly<Record<string, string>> = {}) => withParams('/backends', params),
  backend: (backendId: string) => withParams('/backends/detail', { id: backendId }),
  events: (params: Readonly<Record<string, string>> = {}) => withParams('/events', params),
  audit: (params: Readonly<Record<string, string>> = {}) => withParams('/audit', params),
  access: (params: Readonly<Record<string, string>> = {}) => withParams('/access', params),
} as const;

/** The page of whatever a face and a name say. */
export function routeOf(face: string, ref: ResourceRef): string {
  if (face === 'key') return routes.key(ref);
  return face === 'lease' ? routes.lease(ref) : routes.environment(ref);
}
