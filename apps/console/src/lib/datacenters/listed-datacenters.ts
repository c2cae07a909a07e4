/** What a list is asked for, of what the address says; the same on the server. Pure. */
export function listedDatacenters(
  chosen: string | null,
  isSeveral: boolean,
): { readonly datacenter?: string } {
  if (chosen !== null) return { datacenter: chosen };
  return isSeveral ? { datacenter: 'all' } : {};
}
