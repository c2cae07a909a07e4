/**
 * What this process has seen of etcd, so that it notices when etcd was put back to an earlier state, which may
 * keep the cluster's id.
 *
 * - An etcd that is at a revision which it had passed was put back. That is noticed by its answer, which is
 *   too late for a write: others may have read it by then.
 * - So every write requires that a row is there which this process wrote earlier. Where it is missing, the write
 *   is not carried out. Each process writes a row of its own all the time, see `beat` in `etcd-store.ts`.
 *
 * Once that was noticed nothing is believed any more: reservations may be lost, and the next start
 * publishes those of this datacenter again.
 */
import type { ICompare, IRequestOp, IResponseHeader, ITxnRequest, ITxnResponse } from 'etcd3';
import { isLastingKey } from './etcd-rows.ts';

/** A row that stays and that this process has written, and the revision of that write. */
interface Proof {
  readonly key: Buffer;
  readonly revision: bigint;
}

/** A write, and how its answer is judged. */
export interface ProvenWrite {
  readonly request: ITxnRequest;
  /** @throws when etcd was put back. */
  assertProven(answer: ITxnResponse): void;
}

export interface EtcdHistory {
  /** The newest revision that was seen. */
  revision(): bigint;
  /** @throws when an answer shows that etcd was put back, or one before has. */
  assertContinued(header: IResponseHeader, known: bigint, hasWritten: boolean): void;
  /** The same write, which is carried out only in an etcd that has what this process wrote. */
  proven(request: ITxnRequest): ProvenWrite;
}

export function createEtcdHistory(): EtcdHistory {
  let newest = 0n;
  let isBroken = false;
  let proof: Proof | undefined;

  function assertSound(): void {
    if (isBroken) throw new Error('etcd was restored from a backup: start this controller again');
  }

  /** Notes what an answer shows of the row that was written last. */
  function judge(
    request: ITxnRequest,
    { header, succeeded, responses }: ITxnResponse,
    of?: Proof,
  ): void {
    if (succeeded) {
      const key = keyWrittenBy(request);
      const revision = BigInt(header.revision);
      if (key !== undefined && revision > (proof?.revision ?? 0n)) proof = { key, revision };
    } else if (of !== undefined) {
      const row = responses.at(-1)?.response_range.kvs[0];
      isBroken ||= row === undefined || BigInt(row.mod_revision) < of.revision;
    }
    assertSound();
  }

  return {
    revision: () => newest,
    assertContinued(header, known, hasWritten) {
      const revision = BigInt(header.revision);
      // An answer is not older than what was known when the call was sent; a write has a newer revision.
      isBroken ||= hasWritten ? revision <= known : revision < known;
      assertSound();
      if (revision > newest) newest = revision;
    },
    proven(request) {
      const of = proof;
      return {
        request: of === undefined ? request : requiring(of, request),
        assertProven: (answer) => {
          judge(request, answer, of);
        },
      };
    },
  };
}

function requiring({ key, revision }: Proof, request: ITxnRequest): ITxnRequest {
  const isThere: ICompare = {
    ...{ key, target: 'Mod', result: 'Greater' },
    mod_revision: String(revision - 1n),
  };
  const look: IRequestOp = { request_range: { key } };
  return {
    ...request,
    compare: [...(request.compare ?? []), isThere],
    failure: [...(request.failure ?? []), look],
  };
}

function keyWrittenBy({ success }: ITxnRequest): Buffer | undefined {
  const key = success?.[0]?.request_put?.key;
  return key !== undefined && isLastingKey(key.toString()) ? key : undefined;
}
