/**
 * Sends calls at a rate that does not depend on the answers, as many independent services do together.
 * Arguments: URL TOKENS(comma) CALLS_PER_SECOND ITEMS_OF_A_CALL CONNECTIONS MS
 */
import { createControllerClient } from '@leasehold/client';

/** What became of items that were sent, and how long their calls took. */
export interface LoadReport {
  readonly sentCount: number;
  readonly grantedCount: number;
  /** Refused with an error that says to try again. */
  readonly refusedCount: number;
  /** Anything else, by its code. */
  readonly otherCounts: Readonly<Record<string, number>>;
  /** Of each call of which something was refused. */
  readonly refusedMs: readonly number[];
  /** Of each call of which everything was granted. */
  readonly grantedMs: readonly number[];
}

const TTL_MS = 2_000;
const TICK_MS = 10;
/** After the last call, its answers are waited for. */
const ANSWERS_MS_MAX = 15_000;

const [url = '', tokens = '', callsPerSecond = '', items = '', connections = '', forMs = ''] =
  process.argv.slice(2);
process.once('disconnect', () => process.exit(0));

const tokenList = tokens.split(',');
const clients = Array.from({ length: Number(connections) }, (_, place) =>
  createControllerClient({
    url,
    token: tokenList[place % tokenList.length] ?? '',
    transport: 'ws',
  }),
);
let sentCount = 0;
let grantedCount = 0;
let refusedCount = 0;
const otherCounts: Record<string, number> = {};
const refusedMs: number[] = [];
const grantedMs: number[] = [];

function noteFailure(error: { code?: unknown; retryable?: unknown; message?: unknown }, of = 1) {
  if (error.retryable === true) refusedCount += of;
  else {
    const code = String(error.code ?? error.message);
    otherCounts[code] = (otherCounts[code] ?? 0) + of;
  }
}

async function send(place: number): Promise<void> {
  const itemCount = Number(items);
  const sentAtMs = performance.now();
  sentCount += itemCount;
  let isRefused = false;
  const client = clients[place % clients.length];
  if (client === undefined) throw new Error('there is at least one connection');
  try {
    const { results } = await client.api.leases.acquireMany.mutate({
      localTimeMs: Math.round(sentAtMs),
      items: Array.from({ length: itemCount }, (_, item) => ({
        namespace: ['load'],
        key: `${String(place)}-${String(item)}`,
        ttlMs: TTL_MS,
        holder: 'load',
      })),
    });
    for (const result of results) {
      if (result.outcome === 'granted') grantedCount += 1;
      else if (result.outcome === 'failed') {
        isRefused = true;
        noteFailure(result.error);
      } else noteFailure({ code: result.outcome });
    }
  } catch (error) {
    isRefused = true;
    const { data, message } = error as { data?: { retryable?: unknown }; message?: unknown };
    noteFailure({ retryable: data?.retryable, message }, itemCount);
  }
  (isRefused ? refusedMs : grantedMs).push(performance.now() - sentAtMs);
}

const beganAtMs = performance.now();
const sent: Promise<void>[] = [];
await new Promise<void>((resolve) => {
  const timer = setInterval(() => {
    const elapsedMs = performance.now() - beganAtMs;
    const dueCount = (Math.min(elapsedMs, Number(forMs)) * Number(callsPerSecond)) / 1_000;
    while (sent.length < dueCount) sent.push(send(sent.length));
    if (elapsedMs >= Number(forMs)) {
      clearInterval(timer);
      resolve();
    }
  }, TICK_MS);
});
await Promise.race([
  Promise.allSettled(sent),
  new Promise((resolve) => setTimeout(resolve, ANSWERS_MS_MAX)),
]);
const report: LoadReport = {
  sentCount,
  grantedCount,
  refusedCount,
  otherCounts,
  refusedMs,
  grantedMs,
};
process.send?.(report);
