/** The topic of hints about a lease: it may have become free. */
export function leaseTopic(lease: { readonly namespace: string; readonly name: string }): string {
  return `lease:${lease.namespace}/${lease.name}`;
}
