/**
 * The datacenter of the console's own controller, so that addresses and calls name a datacenter only
 * where it is another one: with one datacenter nothing is said of datacenters.
 */
let here: string | undefined;

/** Set once the session is known. */
export function setHere(datacenter: string): void {
  here = datacenter;
}

/** What a call or an address says of where a thing is: nothing, when it is here. */
export function at(datacenter: string | null | undefined): { readonly datacenter?: string } {
  if (datacenter === undefined || datacenter === null || datacenter === '') return {};
  return datacenter === here ? {} : { datacenter };
}
