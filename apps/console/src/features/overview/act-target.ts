import { fullName } from '~/lib/format.ts';

/** What an act was done to, as people call it: a resource by its name, anything else by its id. */
export function actTarget(act: { readonly resource: string; readonly detail?: unknown }): string {
  const { detail } = act;
  if (typeof detail === 'object' && detail !== null && 'name' in detail && 'namespace' in detail) {
    const { name, namespace } = detail;
    if (typeof name === 'string' && typeof namespace === 'string') {
      return fullName({ name, namespace });
    }
  }
  return act.resource;
}
