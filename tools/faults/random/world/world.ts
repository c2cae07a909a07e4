/** Everything that a run consists of, and how it is opened and closed. */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { waitUntil } from '@leasehold/testing/stack';
import type { HolderClock } from '../../leases/stage/program.ts';
import type { Backup } from '../../stage/database-backup.ts';
import { machineMs } from '../../stage/machine-time.ts';
import type { FaultSeen, Freeze, History, Revoke } from '../history.ts';
import { openDatabase, type WorldDatabase } from './database.ts';
import { SharedDatacenters } from './datacenters.ts';
import { Fleet, type Worker } from './fleet.ts';
import { harvest, type Restore } from './harvest.ts';
import { Monitor } from './monitor.ts';
import { createNetwork, type Network } from './network.ts';
import { Observer } from './observer.ts';
import { openPooler, type Pooler } from './pooler.ts';
import { Random } from '../../../simulate/engine/random.ts';
import { StreamReader } from './streams.ts';
import { FROZEN_ENVIRONMENT, NAMESPACE } from './workers/settings.ts';

/** The workers of a run. Some have clocks that are wrong all the time: F5, F6. */
export const WORKERS: readonly {
  readonly name: string;
  readonly role: Worker['role'];
  readonly clock: HolderClock;
}[] = [
  { name: 'caller-0', role: 'caller', clock: {} },
  { name: 'caller-1', role: 'caller', clock: { rate: 1.1, aheadMs: 3_600_000 } },
  { name: 'holder-0', role: 'holder', clock: { wallStepsBackEveryMs: 300 } },
  { name: 'holder-1', role: 'holder', clock: { rate: 0.9 } },
  { name: 'updater-0', role: 'updater', clock: {} },
  { name: 'updater-1', role: 'updater', clock: { rate: 1.1 } },
  { name: 'sharer-0', role: 'sharer', clock: {} },
  { name: 'sharer-1', role: 'sharer', clock: { rate: 0.9 } },
];

const REVOKE_EVERY_MS = 3_000;
const FREEZE_EVERY_MS = 3_000;
const FREEZE_MS = 1_500;
/** Starts take long on a machine that others use. */
const SETTLED_MS_MAX = 120_000;

export class World {
  readonly database: WorldDatabase;
  readonly network: Network;
  readonly fleet: Fleet;
  readonly faults: FaultSeen[] = [];
  readonly monitor: Monitor;
  /** Only where a run needs several datacenters. */
  readonly shared: SharedDatacenters | undefined;
  /** Only where a run needs one: between the last controller and the database. */
  readonly pooler: Pooler | undefined;
  readonly beganAtMs = machineMs();
  readonly #observer: Observer;
  readonly #readers: readonly StreamReader[];
  readonly #random: Random;
  readonly #revokes: Revoke[] = [];
  readonly #restores: Restore[] = [];
  readonly #freezes: Freeze[] = [];
  readonly #ending = new AbortController();
  readonly #operating: Promise<unknown>;

  private constructor(parts: Opened, seed: number) {
    this.database = parts.database;
    this.network = parts.network;
    this.fleet = parts.fleet;
    this.shared = parts.shared;
    this.pooler = parts.pooler;
    this.#random = new Random(seed);
    this.#observer = new Observer(this.database);
    this.#readers = this.fleet.controllers.map(
      ({ url }, index) => new StreamReader(`reader of c${String(index)}`, url, this.fleet.token),
    );
    this.monitor = new Monitor(this.fleet, this.#readers, this.shared);
    this.#operating = Promise.all([this.#revoke(), this.#freeze()]);
  }

  /** Starts everything, and returns when it works. */
  static async open(seed: number, of: Extent): Promise<World> {
    const parts = await open(seed, of);
    const world = new World(parts, seed);
    try {
      const beganAtMs = machineMs();
      await waitUntil(
        () => world.monitor.recoveredAtMs(['leases', 'keys', 'stream'], beganAtMs) < Infinity,
        { what: 'that everything works', timeoutMs: SETTLED_MS_MAX },
      );
      return world;
    } catch (error) {
      await world.close();
      throw error;
    }
  }

  /** An operator who revokes what happens to be held, by force or not. */
  async #revoke(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      await pause(REVOKE_EVERY_MS, undefined, { signal: this.#ending.signal }).catch(
        () => undefined,
      );
      const { held } = this.#observer;
      if (held.length === 0) continue;
      const leaseId = this.#random.pick(held);
      const isForced = this.#random.chance(0.7);
      const revoke = { leaseId, mode: isForced ? 'force' : 'graceful', reason: 'a run' } as const;
      const call = { id: randomUUID(), process: 'operator', resource: '', kind: 'revoke' } as const;
      const calledAtMs = machineMs();
      const answer = await this.fleet
        .api(this.#random.whole(0, this.fleet.controllers.length - 1))
        .leases.revoke.mutate(revoke)
        .then(
          ({ outcome }) => ({ outcome: 'answered' as const, report: outcome }),
          () => ({ outcome: 'unknown' as const }),
        );
      if (!isForced) continue;
      const repliedAtMs = answer.outcome === 'unknown' ? Infinity : machineMs();
      this.#revokes.push({ ...call, leaseId, calledAtMs, repliedAtMs, answer });
    }
  }

  /** An operator who freezes an environment for moments, by the database's clock. */
  async #freeze(): Promise<void> {
    while (!this.#ending.signal.aborted) {
      await pause(FREEZE_EVERY_MS, undefined, { signal: this.#ending.signal }).catch(
        () => undefined,
      );
      const askedAtMs = machineMs();
      const frozen = this.database
        .query<{ until: string }>(
          `select to_json((clock_timestamp() + interval '${String(FREEZE_MS)} ms') at time zone 'utc') #>> '{}' || 'Z' as until`,
        )
        .then(([row]) =>
          this.fleet.api(0).environments.freeze.mutate({
            ...{ environment: [NAMESPACE, 'frozen'], reason: 'a run', until: row?.until ?? '' },
          }),
        );
      const isFrozen = await frozen.then(
        () => true,
        () => false,
      );
      if (!isFrozen) continue;
      const span = { fromMs: machineMs(), untilMs: askedAtMs + FREEZE_MS };
      this.#freezes.push({ resource: FROZEN_ENVIRONMENT, ...span });
    }
  }

  /**
   * Steps the database's clock just after a look at it: what was written long before and read only after the step would
   * be put into the wrong clock.
   */
  async stepClock(ms: number): Promise<void> {
    await this.#observer.looked();
    await this.database.stepClock(ms);
  }

  /** Kills the database, and puts a backup in its place, which was begun at `backupFromMs`. */
  async restore(backup: Backup, backupFromMs: number): Promise<void> {
    const endsFromMs = machineMs();
    await this.database.kill();
    const endedAtMs = machineMs();
    this.#observer.beginAnother();
    const folder = await this.database.putBack(backup);
    this.#restores.push({ folder, backupFromMs, endsFromMs, endedAtMs });
  }

  /** Lets everything come to rest. @returns what was seen. */
  async finish(): Promise<History> {
    this.#ending.abort();
    await this.#operating;
    await this.fleet.stopWorkers();
    await this.monitor.close();
    const endedAtMs = machineMs();
    await this.#untilRead();
    await this.#observer.close();
    const { database, fleet, faults, beganAtMs } = this;
    const { starved } = this.monitor;
    const seen = { database, fleet, faults, starved, beganAtMs, endedAtMs };
    const shared = await this.shared?.finish();
    const own = {
      revokes: this.#revokes,
      restores: this.#restores,
      freezes: this.#freezes,
      observer: this.#observer,
      readers: this.#readers,
    };
    return harvest({ ...seen, ...own, shared });
  }

  /** Until each reader has received what was written so far. */
  async #untilRead(): Promise<void> {
    const sql = `select coalesce(max(v.id), 0)::int as id, max(e.epoch)::text || '.' as epoch
      from leasehold.lease_event v full join leasehold.database_epoch e on false`;
    const [last] = await this.database.query<{ id: number; epoch: string }>(sql);
    const hasAll = ({ received }: StreamReader): boolean => {
      const newest = received.at(-1);
      return newest?.epoch === last?.epoch && (newest?.id ?? 0) >= (last?.id ?? 0);
    };
    await waitUntil(() => this.#readers.every(hasAll), {
      what: 'the last event',
      timeoutMs: SETTLED_MS_MAX,
    }).catch(() => undefined);
  }

  /** Ends everything, whatever state it is in. */
  async close(): Promise<void> {
    this.#ending.abort();
    const steps = [
      () => this.#operating,
      () => this.monitor.close(),
      async () => this.shared?.close(),
      () => Promise.all(this.#readers.map((reader) => reader.close())),
      () => this.fleet.stage.end(),
      () => this.#observer.close(),
      async () => this.pooler?.stop(),
      () => this.network.close(),
      () => this.database.close(),
    ];
    for (const step of steps) {
      await step().catch((error: unknown) => {
        console.error('closing the world', error);
      });
    }
  }
}

/** What a run has besides one datacenter. */
export interface Extent {
  readonly hasDatacenters: boolean;
  readonly hasPooler: boolean;
}

interface Opened {
  readonly database: WorldDatabase;
  readonly network: Network;
  readonly fleet: Fleet;
  readonly shared: SharedDatacenters | undefined;
  readonly pooler: Pooler | undefined;
}

async function open(seed: number, of: Extent): Promise<Opened> {
  const database = await openDatabase();
  const network = createNetwork();
  const pooler = of.hasPooler ? await openPooler(database, network) : undefined;
  const places = { databaseUrl: database.url, poolerUrl: pooler?.url };
  const fleet = new Fleet({ ...places, network, seed });
  try {
    await fleet.startControllers();
    await fleet.startDrones();
    for (const { name, role, clock } of WORKERS) await fleet.startWorker(name, role, clock);
    const shared = of.hasDatacenters ? await SharedDatacenters.open(seed) : undefined;
    return { database, network, fleet, shared, pooler };
  } catch (error) {
    await fleet.stage.close();
    await pooler?.stop();
    await network.close();
    await database.close();
    throw error;
  }
}
