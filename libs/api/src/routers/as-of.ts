import type { ApiServices } from '../context.ts';

/**
 * An answer with the database's time before it was read, which lists of leases have already: a page
 * can then show how old it is.
 */
export async function asOf<Answer extends object>(
  services: Pick<ApiServices, 'now'>,
  read: () => Promise<Answer>,
): Promise<Answer & { readonly asOf: string }> {
  const now = await services.now();
  return { ...(await read()), asOf: now };
}
