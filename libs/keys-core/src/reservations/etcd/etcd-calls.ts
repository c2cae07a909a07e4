/**
 * Calls to etcd: which member is asked, for how long, and when it is given up.
 *
 * The library's own retries and circuit breakers are off. Its retries take no account of a deadline,
 * and a breaker that has opened over linearizable calls would refuse the reads that a member can
 * still answer by itself. Here a call has one deadline, its attempts divide it, and what is asked of
 * a member that did not answer goes to the next one.
 */
import { noop } from 'cockatiel';
import {
  Etcd3,
  type ICompare,
  type IRangeRequest,
  type IRangeResponse,
  type IRequestOp,
  type IResponseHeader,
  type ITxnRequest,
  type ITxnResponse,
} from 'etcd3';
import type { Clock } from '../../kernel/clock.ts';
import { LeaseError } from '../../kernel/errors.ts';
import {
  isReservationId,
  parseReservationKey,
  type ReservationKey,
  reservationKeyText,
  type ReservationPointer,
} from '../../kernel/reservation.ts';

/** How to reach etcd. Nothing of it is ever part of an error. */
export interface EtcdOptions {
  /** URLs of members; the first one is the nearest, this datacenter's own. */
  readonly endpoints: readonly string[];
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** The CA of the members' certificates, as PEM; by default the machine's own CAs. */
  readonly ca?: string | undefined;
  /** This client's certificate and its key, as PEM; only with `ca`. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
}

export interface EtcdCallsOptions extends EtcdOptions {
  readonly clock: Clock;
  /** Called after every linearizable call: with why etcd could not answer it, or undefined. */
  readonly onAsked?: ((failure: unknown) => void) | undefined;
  /** How long members have, all together, to answer what they know by themselves. */
  readonly nearbyMs?: number | undefined;
}

export interface EtcdCalls {
  /** Asks the nearest member that answers for what it knows by itself. */
  readonly rangeNearby: (request: IRangeRequest) => Promise<IRangeResponse>;
  /** @throws {LeaseError} `reservation.store_unreachable`, as all of them. */
  readonly range: (request: IRangeRequest) => Promise<IRangeResponse>;
  /** Only for what may be carried out twice: when an answer is lost it is sent again. */
  readonly txn: (request: ITxnRequest) => Promise<ITxnResponse>;
  /** A lease of etcd, which ends after this many seconds at the earliest. @returns its id. */
  readonly grantLease: (seconds: number) => Promise<string>;
  /** How long a lease takes still, in milliseconds; 0 when it has ended. */
  readonly leaseMs: (id: string) => Promise<number>;
  /** From now on an answer of any other etcd is not accepted. */
  readonly expectCluster: (clusterId: string) => void;
  close(): void;
}

/** A member of the same datacenter answers within milliseconds; the rest is for a busy machine. */
const NEARBY_MS = 500;
/** Two round trips around the world, and a moment for a new leader to be found. */
const LINEARIZABLE_MS = 2_400;
/** How many members are asked, each for an equal share of the time. */
const ATTEMPTS_MAX = 3;
/** For how long a member that did not answer is asked last. */
const AVOIDED_MS = 5_000;

export function createEtcdCalls(options: EtcdCallsOptions): EtcdCalls {
  const { clock, onAsked, nearbyMs = NEARBY_MS } = options;
  const clients = options.endpoints.map((endpoint) => clientOf(endpoint, options));
  // A member that is cut off from the others answers nearby reads, and no linearizable calls.
  const nearby = createOrder(clients, clock);
  const anywhere = createOrder(clients, clock);
  let expected: string | undefined;
  const history = createEtcdHistory();

  const inTurn = <T extends Answer>(order: Order, totalMs: number, call: Call<T>): Promise<T> =>
    askInTurn(order, totalMs, async (client, within) => {
      const answer = await call(client, within);
      assertCluster(answer.header, expected);
      return answer;
    });

  async function linearizable<T extends Answer>(
    call: Call<T>,
    judge: (answer: T, knownRevision: bigint) => void,
  ): Promise<T> {
    const knownRevision = history.revision();
    try {
      const answer = await inTurn(anywhere, LINEARIZABLE_MS, call);
      judge(answer, knownRevision);
      onAsked?.(undefined);
      return answer;
    } catch (cause) {
      onAsked?.(cause);
      throw unreachable(cause);
    }
  }

  return {
    rangeNearby: (request) =>
      inTurn(nearby, nearbyMs, (client, within) =>
        client.kv.range({ ...request, serializable: true }, within),
      ),
    range: (request) =>
      linearizable(
        (client, within) => client.kv.range(request, within),
        ({ header }, known) => {
          history.assertContinued(header, known, false);
        },
      ),
    txn(request) {
      const write = history.proven(request);
      return linearizable(
        (client, within) => client.kv.txn(write.request, within),
        (answer, known) => {
          history.assertContinued(answer.header, known, answer.succeeded);
          write.assertProven(answer);
        },
      );
    },
    // The member that answers may not have seen the newest write: its revision shows nothing here.
    async grantLease(seconds) {
      const { ID } = await inTurn(anywhere, LINEARIZABLE_MS, (client, within) =>
        client.leaseClient.leaseGrant({ TTL: seconds }, within),
      );
      return ID;
    },
    async leaseMs(id) {
      const { TTL } = await inTurn(anywhere, LINEARIZABLE_MS, (client, within) =>
        client.leaseClient.leaseTimeToLive({ ID: id }, within),
      );
      return Math.max(0, Number(TTL)) * 1_000;
    },
    expectCluster(clusterId) {
      expected = clusterId;
    },
    close() {
      for (const client of clients) client.close();
    },
  };
}

interface Answer {
  readonly header: IResponseHeader;
}

type Call<T> = (client: Etcd3, options: { deadline: number }) => Promise<T>;

/** Asks one member after the other until one answers. */
async function askInTurn<T>(order: Order, totalMs: number, call: Call<T>): Promise<T> {
  const tried = order.best().slice(0, ATTEMPTS_MAX);
  let cause: unknown;
  for (const client of tried) {
    try {
      const answer = await call(client, deadlineIn(totalMs / tried.length));
      order.answered(client);
      return answer;
    } catch (error) {
      order.failed(client);
      cause = error;
    }
  }
  throw unreachable(cause);
}

function unreachable(cause: unknown): LeaseError {
  if (cause instanceof LeaseError) return cause;
  return new LeaseError('reservation.store_unreachable', undefined, { cause });
}

function clientOf(endpoint: string, { user, password, ca, cert, key }: EtcdOptions): Etcd3 {
  const isOwnCa = ca !== undefined;
  return new Etcd3({
    hosts: new URL(endpoint).origin,
    ...(user === undefined ? {} : { auth: { username: user, password: password ?? '' } }),
    ...(isOwnCa
      ? {
          credentials: {
            rootCertificate: Buffer.from(ca),
            ...(cert === undefined ? {} : { certChain: Buffer.from(cert) }),
            ...(key === undefined ? {} : { privateKey: Buffer.from(key) }),
          },
        }
      : {}),
    faultHandling: { global: noop, host: () => noop },
    // The exchange of the password has a deadline too.
    defaultCallOptions: () => deadlineIn(LINEARIZABLE_MS / ATTEMPTS_MAX),
    grpcOptions: {
      'grpc.initial_reconnect_backoff_ms': 100,
      'grpc.max_reconnect_backoff_ms': 1_000,
      // Detects a connection that a firewall has dropped; etcd allows one ping each 5 s.
      'grpc.keepalive_time_ms': 10_000,
      'grpc.keepalive_timeout_ms': 3_000,
    },
  });
}

/** gRPC wants an instant of the wall clock, and at once turns it into a time from now. */
function deadlineIn(ms: number): { deadline: number } {
  // eslint-disable-next-line no-restricted-properties -- see above
  return { deadline: Date.now() + ms };
}

type Order = ReturnType<typeof createOrder>;

/** In which order members are asked: as configured, but those that recently did not answer come last. */
function createOrder(clients: readonly Etcd3[], clock: Clock) {
  const avoidedUntil = new Map<Etcd3, number>();
  return {
    best(): Etcd3[] {
      const nowMs = clock.nowMs();
      const isAvoided = (client: Etcd3): boolean => (avoidedUntil.get(client) ?? nowMs) > nowMs;
      return [
        ...clients.filter((client) => !isAvoided(client)),
        ...clients.filter((client) => isAvoided(client)),
      ];
    },
    answered: (client: Etcd3) => void avoidedUntil.delete(client),
    failed: (client: Etcd3) => void avoidedUntil.set(client, clock.nowMs() + AVOIDED_MS),
  };
}

/** An etcd that was restored, or is another one, does not know what was reserved. */
function assertCluster(header: IResponseHeader, expected: string | undefined): void {
  if (expected === undefined || header.cluster_id === expected) return;
  throw new Error(`etcd is another cluster than before: ${header.cluster_id}, not ${expected}`);
}

// What this process has seen of etcd, so that it notices when etcd was put back to an earlier state, which may
// keep the cluster's id.
// - An etcd that is at a revision which it had passed was put back. That is noticed by its answer, which is
//   too late for a write: others may have read it by then.
// - So every write requires that a row is there which this process wrote earlier. Where it is missing, the write
//   is not carried out. Each process writes a row of its own all the time, see `beat` in `etcd-store.ts`.
// Once that was noticed nothing is believed any more: reservations may be lost, and the next start
// publishes those of this datacenter again.

/** A row that stays and that this process has written, and the revision of that write. */
interface Proof {
  readonly key: Buffer;
  readonly revision: bigint;
}

/** A write, and how its answer is judged. */
interface ProvenWrite {
  readonly request: ITxnRequest;
  /** @throws when etcd was put back. */
  assertProven(answer: ITxnResponse): void;
}

interface EtcdHistory {
  /** The newest revision that was seen. */
  revision(): bigint;
  /** @throws when an answer shows that etcd was put back, or one before has. */
  assertContinued(header: IResponseHeader, known: bigint, hasWritten: boolean): void;
  /** The same write, which is carried out only in an etcd that has what this process wrote. */
  proven(request: ITxnRequest): ProvenWrite;
}

function createEtcdHistory(): EtcdHistory {
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
    key,
    target: 'Mod',
    result: 'Greater',
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

// What is written in etcd, and under which keys. Nothing that is read is trusted before it is checked.

export const ROOT = '/leasehold/v1';
const RESERVATIONS = `${ROOT}/reservation/`;
const POINTERS = `${ROOT}/pointer/`;
const DATACENTERS = `${ROOT}/datacenter/`;
const WITNESSES = `${ROOT}/witness/`;

export const TOKEN = /^\d{1,19}$/u;
const CLUSTER_ID = /^[0-9a-f-]{36}$/u;

/** A kind of thing in etcd: where it is, and how it is written. */
export interface EtcdRows<Name, Value> {
  readonly prefix: string;
  keyOf(name: Name): string;
  nameOf(key: string): Name;
  write(value: Value): string;
  /** @throws {LeaseError} `internal.error` for what Leasehold did not write. */
  read(text: string, name: Name): Value;
}

/** The first reservation of each key. */
export const RESERVATION_ROWS: EtcdRows<ReservationKey, string> = {
  prefix: RESERVATIONS,
  keyOf: (key) => RESERVATIONS + reservationKeyText(key),
  nameOf: (key) => parseReservationKey(key.slice(RESERVATIONS.length)),
  write: (reservationId) => reservationId,
  read: (text) => (isReservationId(text) ? text : foreign('reservation')),
};

/** Where each reservation that was left has gone to. */
export const POINTER_ROWS: EtcdRows<string, ReservationPointer> = {
  prefix: POINTERS,
  keyOf: (fromId) => POINTERS + fromId,
  nameOf: (key) => key.slice(POINTERS.length),
  write: ({ toId, tokenFloor }) => JSON.stringify({ toId, tokenFloor }),
  read(text, fromId) {
    const { toId, tokenFloor } = objectOf(text);
    if (typeof toId !== 'string' || !isReservationId(toId)) return foreign('pointer');
    if (typeof tokenFloor !== 'string' || !TOKEN.test(tokenFloor)) return foreign('pointer');
    return { fromId, toId, tokenFloor };
  },
};

/** Which database has which name of a datacenter. */
export const DATACENTER_ROWS: EtcdRows<string, string> = {
  prefix: DATACENTERS,
  keyOf: (name) => DATACENTERS + name,
  nameOf: (key) => key.slice(DATACENTERS.length),
  write: (clusterId) => clusterId,
  read: (text) => (CLUSTER_ID.test(text) ? text : foreign('name of a datacenter')),
};

/** The row of a process, by which it notices that etcd was put back to an earlier state. */
export function witnessKeyOf(name: string): string {
  return WITNESSES + name;
}

/** Whether a row stays, once it was written: nobody deletes it, and what replaces it is newer. */
function isLastingKey(key: string): boolean {
  return [RESERVATIONS, POINTERS, WITNESSES].some((prefix) => key.startsWith(prefix));
}

export function objectOf(text: string): Record<string, unknown> {
  try {
    const parsed: unknown = JSON.parse(text);
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

export function foreign(what: string): never {
  throw new LeaseError('internal.error', `etcd holds a ${what} that is not one of Leasehold's.`);
}
