/**
 * A client of the soak, as a process of its own: holds leases until its parent ends, and says how
 * many it still has. Arguments: URL TOKEN NAME COUNT TTL_MS
 */
import { createLeasehold, type Lease } from '@leasehold/client';

/** Ten such clients together ask for fewer than an overloaded controller refuses. */
const AT_ONCE = 50;

/** What the process says when it holds all of them, and once a second from then on. */
export interface Holding {
  readonly heldCount: number;
  readonly lostCount: number;
}

const [url = '', token = '', name = '', count = '', ttlMs = ''] = process.argv.slice(2);
process.once('disconnect', () => process.exit(0));
const leasehold = createLeasehold({ url, token, clientName: name });
const definition = leasehold.defineLease(['soak', name], { ttlMs: Number(ttlMs), waitMs: 0 });
const held: Lease[] = [];
let lostCount = 0;
while (held.length < Number(count)) {
  const names = Array.from({ length: AT_ONCE }, (_, place) => String(held.length + place));
  const taken = await Promise.all(names.map((key) => definition.acquire(key)));
  for (const lease of taken) lease.signal.addEventListener('abort', () => (lostCount += 1));
  held.push(...taken);
}
const say = (): void => {
  process.send?.({ heldCount: held.length - lostCount, lostCount } satisfies Holding);
};
say();
setInterval(say, 1_000);
