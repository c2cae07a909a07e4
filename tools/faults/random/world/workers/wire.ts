/** The requests of a service as they travel, each written down with its reply. */
import { createControllerClient, leaseholdErrorOf, type ControllerClient } from '@leasehold/client';
import type {
  Acquire,
  Cancel,
  Connect,
  Failure,
  Operation,
  Release,
  Renew,
} from '../../history.ts';
import type { Request } from '../diary.ts';
import type { WorkerParts } from './parts.ts';
import { keyResource, leaseResource, NAMESPACE, PROGRAM } from './settings.ts';

type Unnumbered = Request extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never;

/** One attempt of a caller, which may be sent several times. */
export interface Attempt {
  readonly key: string;
  readonly holder: string;
  readonly idempotencyKey: string;
  readonly ttlMs: number;
  readonly waitMs: number;
}

export interface Grant {
  readonly key: string;
  readonly leaseId: string;
  readonly token: string;
}

/** More than a caller waits in line. */
const ANSWER_MS_MAX = 6_000;
const CONNECT_WAIT_MS = 2_000;

export class Wire {
  readonly #parts: WorkerParts;
  readonly #client: ControllerClient;
  #count = 0;

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    const { urls, token } = parts.settings;
    this.#client = createControllerClient({
      url: urls,
      token,
      transport: 'ws',
      callTimeoutMs: ANSWER_MS_MAX,
    });
  }

  async acquire(attempt: Attempt): Promise<Acquire['answer']> {
    const { key, holder, waitMs } = attempt;
    const request = { kind: 'acquire', resource: leaseResource(key), holder, waitMs } as const;
    return this.#recorded(request, async (calledAtMs): Promise<Acquire['answer']> => {
      const localTimeMs = this.#localTimeMs(calledAtMs);
      const wanted = { ...attempt, namespace: [NAMESPACE], localTimeMs };
      const answer = await this.#client.api.leases.acquire.mutate(wanted);
      if (answer.outcome !== 'granted') {
        // An expiry that is in doubt says nothing of who holds it.
        const by = answer.isExpiryUnconfirmed === true ? '' : answer.by;
        return { outcome: 'held', by };
      }
      const { leaseId, fencingToken, deadlines } = answer.lease;
      const loseAtMs = this.#machineTimeOf(deadlines.loseAtMs);
      return { outcome: 'granted', leaseId, token: fencingToken, loseAtMs };
    });
  }

  async renew(grant: Grant): Promise<Renew['answer']> {
    const { key, leaseId, token } = grant;
    const request = { kind: 'renew', resource: leaseResource(key), leaseId, token } as const;
    return this.#recorded(request, async (calledAtMs): Promise<Renew['answer']> => {
      const localTimeMs = this.#localTimeMs(calledAtMs);
      const wanted = { localTimeMs, renewals: [refOf(grant)] };
      const { results } = await this.#client.api.leases.heartbeat.mutate(wanted);
      const [result] = results;
      // A row that stays locked is left out: its renewal was not carried out.
      if (result === undefined) return { outcome: 'failed', code: 'left_out' };
      if (result.outcome === 'failed') return { outcome: 'failed', code: result.error.code };
      if (result.outcome === 'refused') return { outcome: 'refused', reason: result.reason };
      return { outcome: 'renewed', loseAtMs: this.#machineTimeOf(result.deadlines.loseAtMs) };
    });
  }

  async release(grant: Grant): Promise<Release['answer']> {
    const { key, leaseId, token } = grant;
    const request = { kind: 'release', resource: leaseResource(key), leaseId, token } as const;
    return this.#recorded(request, async (): Promise<Release['answer']> => {
      const { outcome } = await this.#client.api.leases.release.mutate(refOf(grant));
      return { outcome: 'answered', report: outcome };
    });
  }

  async cancel({ key, holder, idempotencyKey }: Attempt): Promise<Cancel['answer']> {
    const request = { kind: 'cancel', resource: leaseResource(key), holder } as const;
    return this.#recorded(request, async (): Promise<Cancel['answer']> => {
      const { outcome } = await this.#client.api.leases.cancel.mutate({ idempotencyKey });
      return { outcome: 'answered', report: outcome };
    });
  }

  async connect(name: string): Promise<Connect['answer']> {
    const request = { kind: 'connect', resource: keyResource(name) } as const;
    return this.#recorded(request, async (): Promise<Connect['answer']> => {
      const spawn = { program: PROGRAM };
      const { backendId, leaseId, fencingToken, datacenter } =
        await this.#client.api.keys.connect.mutate({
          key: { name },
          spawn,
          waitMs: CONNECT_WAIT_MS,
        });
      return { outcome: 'connected', backendId, leaseId, token: fencingToken, datacenter };
    });
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  /** A deadline of before a request is so by the time in the diary, too. */
  #localTimeMs(calledAtMs: number): number {
    const { rate = 1, aheadMs = 0 } = this.#parts.settings.clock;
    return calledAtMs * rate + aheadMs;
  }

  #machineTimeOf(localMs: number): number {
    const { rate = 1, aheadMs = 0 } = this.#parts.settings.clock;
    return (localMs - aheadMs) / rate;
  }

  async #recorded<A extends Operation['answer']>(
    request: Unnumbered,
    work: (calledAtMs: number) => Promise<A>,
  ): Promise<A | Failure> {
    const { diary, settings } = this.#parts;
    this.#count += 1;
    const id = `${settings.name}-${String(this.#count)}`;
    const calledAtMs = diary.call({ ...request, id });
    const answer = await work(calledAtMs).catch(failureOf);
    diary.reply(id, answer);
    return answer;
  }
}

function refOf({ leaseId, token }: Grant): { leaseId: string; fencingToken: string } {
  return { leaseId, fencingToken: token };
}

function failureOf(error: unknown): Failure {
  const code = leaseholdErrorOf(error)?.code;
  if (code === undefined || code === 'request.outcome_unknown') return { outcome: 'unknown' };
  return { outcome: 'failed', code };
}
