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
