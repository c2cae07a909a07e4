import type { KeyService } from '../keys/index.ts';
import type { Resource } from '../kernel/resource/resource.ts';
import type { BulkOrder } from './sql/bulk-requests.ts';
import type { ItemOutcome, OpenItem } from './sql/bulk-runs.ts';

/** What carries out the acts on grants of one kind. */
export type BulkTarget = Pick<KeyService, 'revoke' | 'blockRenewal' | 'allowRenewal'>;

/** What bulk actions act on. */
export interface BulkFaces {
  readonly keys: BulkTarget;
  readonly leases: BulkTarget;
  readonly environments: BulkTarget;
  /** The code of the registry for what an act has thrown. */
  readonly codeOf: (error: unknown) => string;
}

/** Of a grant that has ended, by any cause, or that was never there. */
const GONE = 'gone';

/** What an act comes to: done, with or without a change, or why not. */
type Act = Pick<ItemOutcome, 'code' | 'changed'>;

/**
 * The item could not be carried out, and nothing is wrong with it: the database is not there. It stays
 * open, and is tried again.
 */
class StoreGone extends Error {
  override readonly name = 'StoreGone';
}

/** Looks at one item again. */
export type LookAgain = (place: number) => Promise<OpenItem | undefined>;

export interface OneItem {
  readonly order: BulkOrder;
  readonly item: OpenItem;
  readonly lookAgain: LookAgain;
}

/**
 * Carries out one item as its face would for a single grant. What goes wrong is the item's own.
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
    return { place, code, changed: null, failure: error };
  }
}

async function act(faces: BulkFaces, one: OneItem): Promise<Act> {
  const { order, item, lookAgain } = one;
  const { resource, leaseId } = item;
  // By this very bulk action, whose controller died before it could record it.
  if (item.isActedOn) return { code: null, changed: resource };
  if (resource === null || !item.isInForce) return { code: GONE, changed: null };
  if (order.action !== 'revoke') return changeRenewal(faces, resource, one);
  const { outcome } = await faceOf(faces, resource).revoke(
    { leaseId, mode: order.mode ?? 'graceful', reason: order.reason, abandon: false },
    order,
  );
  if (outcome !== 'gone') return { code: null, changed: resource };
  // The controller that had this bulk action before may have acted after it had lost it.
  const isActedOn = (await lookAgain(item.place))?.isActedOn === true;
  return isActedOn ? { code: null, changed: resource } : { code: GONE, changed: null };
}

/** Blocks or allows renewal. What is so already is done, and changed nothing. */
async function changeRenewal(
  faces: BulkFaces,
  resource: Resource,
  { order, item, lookAgain }: OneItem,
): Promise<Act> {
  if (resource.face === 'environment') return { code: 'bulk.unsupported', changed: null };
  const isWanted = order.action === 'allowRenewal';
  const act = isWanted ? 'allowRenewal' : 'blockRenewal';
  const input = { leaseId: item.leaseId, reason: order.reason };
  const { changed } = await faceOf(faces, resource)[act](input, order);
  if (changed) return { code: null, changed: resource };
  const now = item.isRenewable === isWanted ? item : await lookAgain(item.place);
  if (now?.isActedOn === true) return { code: null, changed: resource };
  const isSoAlready = now?.isInForce === true && now.isRenewable === isWanted;
  return { code: isSoAlready ? null : GONE, changed: null };
}

/** The face that the grant is of: a lease id alone is not found by another one. */
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
