/** Three datacenters with an etcd across them, and callers in all of them that ask for the same keys. */
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { leaseholdErrorOf } from '@leasehold/client';
import { startDatacenters, type Datacenters } from '@leasehold/testing/datacenters';
import { startTestCluster, type TestCluster } from '@leasehold/testing/stack';
import { machineMs } from '../../stage/machine-time.ts';
import type { CommittedEvent, Connect, Failure, HomeSeen } from '../history.ts';
import { PROGRAMS } from './fleet.ts';
import { Random } from '../../../simulate/engine/random.ts';
import { keyResource } from './workers/settings.ts';

const NAMES = ['dc1', 'dc2', 'dc3'] as const;
const ROUND_MS = 1_000;
const CONNECT_WAIT_MS = 1_000;
const ANSWER_MS_MAX = 5_000;
/** A round also asks for a key of an earlier one, whose home is known. */
const LOOKS_BACK_MAX = 10;
const PROGRAM = 'idle';

export interface SharedKeys {
  readonly events: readonly CommittedEvent[];
  readonly homes: readonly HomeSeen[];
  readonly operations: readonly Connect[];
}

export class SharedDatacenters {
  readonly datacenters: Datacenters;
  readonly #cluster: TestCluster;
  readonly #random: Random;
  readonly #operations: Connect[] = [];
  readonly #rounds: { readonly beganAtMs: number; readonly endedAtMs: number; isSound: boolean }[] =
    [];
  readonly #working: Promise<void>;
  #isClosed = false;

  private constructor(datacenters: Datacenters, cluster: TestCluster, seed: number) {
    this.datacenters = datacenters;
    this.#cluster = cluster;
    this.#random = new Random(seed);
    this.#working = this.#work();
  }

  static async open(seed: number): Promise<SharedDatacenters> {
    const cluster = await startTestCluster();
    try {
      const datacenters = await startDatacenters({
        names: NAMES,
        clusterUrl: cluster.url,
        programs: {
          [PROGRAM]: { command: 'sleep', args: ['infinity'], readiness: { type: 'none' } },
        },
        entries: {
          controller: path.join(PROGRAMS, 'controller.mjs'),
          drone: path.join(PROGRAMS, 'drone.mjs'),
        },
      });
      return new SharedDatacenters(datacenters, cluster, seed);
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  /** When a fresh key could be connected from everywhere after a moment; Infinity if not so far. */
  recoveredAtMs(sinceMs: number): number {
    const round = this.#rounds.find(({ beganAtMs, isSound }) => beganAtMs >= sinceMs && isSound);
    return round?.endedAtMs ?? Infinity;
  }

  /** Asks for nothing any more. @returns what the databases have recorded, and what callers were told. */
  async finish(): Promise<SharedKeys> {
    this.#isClosed = true;
    await this.#working;
    const found = await Promise.all(NAMES.map((name) => this.#recordedIn(name)));
    return {
      events: found.flatMap(({ events }) => events).sort((a, b) => a.atMs - b.atMs),
      homes: found.flatMap(({ homes }) => homes),
      operations: this.#operations,
    };
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#working;
    await this.datacenters.close();
    await this.#cluster.stop();
  }

  /** Fresh keys, each asked for in all datacenters at once; then a key of an earlier round. */
  async #work(): Promise<void> {
    for (let round = 1; !this.#isClosed; round += 1) {
      const beganAtMs = machineMs();
      const earlier = Math.max(1, round - this.#random.whole(1, LOOKS_BACK_MAX));
      const answers = await Promise.all([
        ...NAMES.map((name) => this.#connect(name, `shared-${String(round)}`)),
        this.#connect(this.#random.pick(NAMES), `shared-${String(earlier)}`),
      ]);
      const fresh = answers.slice(0, NAMES.length);
      const isSound = fresh.every(({ outcome }) => outcome === 'connected');
      this.#rounds.push({ beganAtMs, endedAtMs: machineMs(), isSound });
      await this.#terminate(fresh);
      await pause(ROUND_MS);
    }
  }

  async #connect(at: string, name: string): Promise<Connect['answer']> {
    const calledAtMs = machineMs();
    const answer = await this.datacenters
      .dc(at)
      .api('client')
      .keys.connect.mutate(
        { key: { name }, spawn: { program: PROGRAM }, waitMs: CONNECT_WAIT_MS },
        { signal: AbortSignal.timeout(ANSWER_MS_MAX) },
      )
      .then(
        ({ backendId, leaseId, fencingToken, datacenter }): Connect['answer'] => {
          return { outcome: 'connected', backendId, leaseId, token: fencingToken, datacenter };
        },
        (error: unknown): Failure => {
          const code = leaseholdErrorOf(error)?.code ?? 'request.outcome_unknown';
          if (code === 'request.outcome_unknown') return { outcome: 'unknown' };
          return { outcome: 'failed', code };
        },
      );
    const id = `${at}-${String(this.#operations.length + 1)}`;
    const repliedAtMs = answer.outcome === 'unknown' ? Infinity : machineMs();
    const called = { id, process: at, resource: keyResource(name), calledAtMs, repliedAtMs };
    this.#operations.push({ ...called, kind: 'connect', answer });
    return answer;
  }

  /** With hundreds of living backends, a run would measure the machine. */
  async #terminate(answers: readonly Connect['answer'][]): Promise<void> {
    const connected = answers.find((answer) => answer.outcome === 'connected');
    if (connected === undefined) return;
    const { datacenter, backendId } = connected;
    await this.datacenters
      .dc(datacenter)
      .api('operator')
      .backends.terminate.mutate(
        { backendId, mode: 'hard', reason: 'the round is over' },
        { signal: AbortSignal.timeout(ANSWER_MS_MAX) },
      )
      .catch(() => undefined);
  }

  async #recordedIn(name: string): Promise<Pick<SharedKeys, 'events' | 'homes'>> {
    const datacenter = this.datacenters.dc(name);
    const askedAtMs = machineMs();
    const events = await datacenter.query<CommittedEvent & { agoMs: number }>(
      `select id::int as id, extract(epoch from clock_timestamp() - at)::float8 * 1000 as "agoMs",
        'key /' || name as resource, lease_id::text as "leaseId", fencing_token::text as token,
        case when kind = 'revoked' and detail ->> 'mode' = 'graceful' then 'revoking' else kind end as kind,
        coalesce(reason, '') as reason, coalesce(detail ->> 'holder', '') as holder
       from lease_event where face = 'key' order by id`,
    );
    const homes = await datacenter.query<{ key: string }>(
      `select 'key /' || name as key from reservation where state = 'active'`,
    );
    return {
      events: events.map(({ agoMs, ...event }) => {
        return { ...event, datacenter: name, atMs: askedAtMs - agoMs };
      }),
      homes: homes.map(({ key }) => ({ key, datacenter: name })),
    };
  }
}
