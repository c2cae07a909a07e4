import type { KeyService } from '../keys/index.ts';
import type { Resource } from '../kernel/resource.ts';
import type { BulkOrder } from './sql/bulk-requests.ts';
import type { ItemOutcome, OpenItem } from './sql/bulk-runs.ts';

/** Carries out the acts on grants of one face. */
export type BulkTarget = Pick<KeyService, 'revoke' | 'blockRenewal' | 'allowRenewal'>;

/** What bulk actions act through: one target for each face. */
export interface BulkFaces {
  readonly keys: BulkTarget;
  readonly leases: BulkTarget;
  readonly environments: BulkTarget;
  /** The registry's code for an error that an act threw. */
  readonly codeOf: (error: unknown) => string;
}

/** The code for a grant that has ended, by any cause, or never existed. */
const GONE = 'gone';

/** The outcome of an act: done, or why not. */
type Act = Pick<ItemOutcome, 'code'>;

const DONE: Act = { code: null };

/**
 * The item could not be carried out, through no fault of its own: the database is unreachable. It stays
 * open and is retried.
 */
class StoreGone extends Error {
  override readonly name = 'StoreGone';
}

/** Reads one item again. */
export type LookAgain = (place: number) => Promise<OpenItem | undefined>;

export interface OneItem {
  readonly order: BulkOrder;
  readonly item: OpenItem;
  readonly lookAgain: LookAgain;
}

/**
 * Carries out one item as its face would for a single grant. An error fails this item alone.
 * @throws {StoreGone}.
 */
export async function actOn(
  faces: BulkFaces,
  one: OneItem,
): Promise<ItemOutcome & { readonly failure?: unknown }> {
  const { place } = one.item;
  try {
    return { place, ...(await act(faces, one)) };
  } catch (error) {
    const code = faces.codeOf(error);
    if (code === 'store.unavailable' || code === 'request.outcome_unknown') {
      throw new StoreGone('the database is not there', { cause: error });
    }
    return { place, code, failure: error };
  }
}

async function act(faces: BulkFaces, one: OneItem): Promise<Act> {
  const { order, item, lookAgain } = one;
  const { resource, leaseId } = item;
  // This bulk action did it already, but its controller died before it could record that.
  if (item.isActedOn) return DONE;
  if (resource === null || !item.isInForce) return { code: GONE };
  if (order.action !== 'revoke') return changeRenewal(faces, resource, one);
  const { outcome } = await faceOf(faces, resource).revoke(
    { leaseId, mode: order.mode ?? 'graceful', reason: order.reason, abandon: false },
    order,
  );
  if (outcome !== 'gone') return DONE;
  // The controller that had this bulk action before may have acted after it had lost the lease.
  const isActedOn = (await lookAgain(item.place))?.isActedOn === true;
  return isActedOn ? DONE : { code: GONE };
}

/** Blocks or allows renewal. A grant that is already so counts as done and unchanged. */
async function changeRenewal(
  faces: BulkFaces,
  resource: Resource,
  { order, item, lookAgain }: OneItem,
): Promise<Act> {
  if (resource.face === 'environment') return { code: 'bulk.unsupported' };
  const isWanted = order.action === 'allowRenewal';
  const act = isWanted ? 'allowRenewal' : 'blockRenewal';
  const input = { leaseId: item.leaseId, reason: order.reason };
  const { changed } = await faceOf(faces, resource)[act](input, order);
  if (changed) return DONE;
  const now = item.isRenewable === isWanted ? item : await lookAgain(item.place);
  if (now?.isActedOn === true) return DONE;
  const isSoAlready = now?.isInForce === true && now.isRenewable === isWanted;
  return { code: isSoAlready ? null : GONE };
}

/** The target for the grant's face: the other faces do not find its lease id. */
function faceOf(faces: BulkFaces, { face }: Resource): BulkTarget {
  switch (face) {
    case 'key':
      return faces.keys;
    case 'lease':
      return faces.leases;
    case 'environment':
      return faces.environments;
  }
}
