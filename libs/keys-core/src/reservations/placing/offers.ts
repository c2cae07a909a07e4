import type { Clock } from '../../kernel/clock.ts';
import type { Offer, Offered, WantedProgram } from '../../kernel/fleet/offer.ts';
import { RequestsInProgress } from '../../kernel/requests-in-progress.ts';

/** What a datacenter offers, as far as is known here. */
export interface Offers {
  /** Whether it offered the program a moment ago; false when nothing newer is known, and then it must be asked. */
  remembers(wanted: WantedProgram): boolean;
  /** Asks it; callers that ask at once share the answer. */
  ask(wanted: WantedProgram): Promise<Offer>;
}

/** After this time it is asked again, while callers still go by the last answer. */
const FRESH_MS = 2_000;
/** After this time an answer does not count any more. */
const KEPT_MS = 10_000;

export function createOffers(clock: Pick<Clock, 'nowMs'>, read: () => Promise<Offered>): Offers {
  const reads = new RequestsInProgress<Offered>();
  let known: { readonly offered: Offered; readonly askedAtMs: number } | undefined;
  const readNow = (): Promise<Offered> =>
    reads.share('', async () => {
      const askedAtMs = clock.nowMs();
      const offered = await read();
      known = { offered, askedAtMs };
      return offered;
    });
  return {
    remembers(wanted) {
      if (known === undefined) return false;
      const ageMs = clock.nowMs() - known.askedAtMs;
      if (ageMs > KEPT_MS || known.offered(wanted) !== 'offered') return false;
      // A caller that needs the answer asks by itself, and gets the failure.
      if (ageMs > FRESH_MS) void readNow().catch(() => undefined);
      return true;
    },
    ask: async (wanted) => (await readNow())(wanted),
  };
}
