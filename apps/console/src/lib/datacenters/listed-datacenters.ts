/** The datacenter input of a list, from what the address chooses; the same on the server. Pure. */
export function listedDatacenters(
  chosen: string | null,
  isSeveral: boolean,
): { readonly datacenter?: string } {
  if (chosen !== null) return { datacenter: chosen };
  return isSeveral ? { datacenter: 'all' } : {};
}
