import type { CallerUse } from '@leasehold/api';
import type { Role } from '@leasehold/keys-core';

/** What one principal uses of this controller. */
export interface PrincipalUse extends CallerUse {
  readonly principal: string;
  readonly role: Role;
  /** Counts calls that arrived together. @throws {LeaseError} `request.rate_limited`. */
  countCalls(count: number, isUrgent: boolean): Promise<void>;
  /** Whether it has sent so many calls in this second that it is not answered any more. */
  readonly isShut: boolean;
  /** @throws {LeaseError} `quota.exceeded` for a request or message of more calls than it may have. */
  assertBatch(count: number): void;
  /** @throws {LeaseError} `quota.exceeded`. @returns a function that counts it as closed. */
  openConnection(): () => void;
  /** The same for reads that nobody waits for at this moment, such as the pages of an export. */
  inBackground(): CallerUse;
  /** Counts bytes of answers: sent, and unread until the returned function is called. */
  sent(bytes: number): () => void;
  /** Whether the caller has too many bytes unread, or was sent too many bytes in this second. */
  isBehind(): boolean;
}
