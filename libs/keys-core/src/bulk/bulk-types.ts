import type { BulkAction, BulkState, Caller, Page, PageInput } from '../kernel/face-types.ts';
import type { Face } from '../kernel/resource.ts';
import type { GrantRef } from '../kernel/lease.ts';
import type { Actor } from '../kernel/access.ts';

/** One act on many grants that were chosen and shown before. */
export interface BulkRequest {
  readonly action: BulkAction;
  /** For `revoke`; graceful by default. */
  readonly mode?: 'graceful' | 'force' | undefined;
  readonly reason: string;
  /** Frozen: each acts on this very grant or not at all. */
  readonly items: readonly GrantRef[];
}

export interface BulkFailure {
  readonly leaseId: string;
  /** A code of the registry, or `gone` for a grant that had ended. */
  readonly code: string;
}

export interface BulkProgress {
  readonly bulkId: string;
  readonly action: BulkAction;
  readonly mode: 'graceful' | 'force' | null;
  readonly reason: string;
  readonly actor: string;
  readonly startedAt: string;
  readonly state: BulkState;
  readonly total: number;
  /** Carried out, failed ones included. */
  readonly done: number;
  readonly failedCount: number;
  /** The first thousand, in the order of the items. */
  readonly failed: BulkFailure[];
  /**
   * Of what was revoked: how many holders have not stopped yet, as far as is known. A backend has when its
   * drone reports it, any other holder when it released its lease; each has at its deadline.
   */
  readonly stopping: number;
  /** When the last of them has stopped at the latest; null when none is stopping. */
  readonly stopsBy: string | null;
}

/** What a bulk action would find now. */
export interface BulkPreview {
  /** Those of the items that are in force: the others would be reported as ended. */
  readonly held: string[];
  /** How long the holder that takes longest may go on after a revoke, in milliseconds. */
  readonly stopsWithinMs: number;
}

/** One grant of a bulk action, and what was done to it. */
export interface BulkItemView {
  readonly place: number;
  readonly leaseId: string;
  readonly fencingToken: string;
  /** Null once nothing of the grant is kept, as for its namespace and its name. */
  readonly face: Face | null;
  readonly namespace: string | null;
  readonly name: string | null;
  /** Null until it is its turn. */
  readonly doneAt: string | null;
  /** Why nothing was done to it: a code of the registry, or `gone`; null otherwise. */
  readonly code: string | null;
}

export interface BulkService {
  /** What the items are at this moment. Changes nothing. */
  preview(items: readonly GrantRef[]): Promise<BulkPreview>;
  /**
   * Answers once the request is recorded; it is then carried out even if this controller dies.
   * @throws {LeaseError} `bulk.busy` while too many are running; `grant.hold_off`.
   */
  start(request: BulkRequest, caller: Caller, actor: Actor): Promise<{ bulkId: string }>;
  /** What was done stays done; acts that are under way are finished. @throws {LeaseError} `bulk.not_found`. */
  abort(bulkId: string, actor: Actor): Promise<{ changed: boolean }>;
  /**
   * Its grants, in their order, with what was done to each.
   * @throws {LeaseError} `bulk.not_found`; `request.invalid` for a foreign cursor.
   */
  items(input: { readonly bulkId: string } & PageInput): Promise<Page<BulkItemView>>;
  /** @throws {LeaseError} `bulk.not_found`. */
  get(bulkId: string): Promise<BulkProgress>;
  /**
   * Yields the progress now and whenever it changes; ends after `done` and `aborted`, once none of its
   * acts is under way, and does not wait for holders to stop. @throws {LeaseError} `bulk.not_found`.
   */
  watch(bulkId: string, signal: AbortSignal): AsyncIterable<BulkProgress>;
}
