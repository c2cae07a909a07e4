/** The stage for faults of leases: controllers, networks in front of them, and programs as clients. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { RunnerTestSuite } from 'vitest';
import {
  startFaultProxy,
  startProcess,
  waitUntil,
  type ControllerProcess,
  type FaultProxy,
  type TestProcess,
} from '@leasehold/testing';
import { connectionOf } from '@leasehold/service-kit';
import pg from 'pg';
import { machineMs } from '../../stage/machine-time.ts';
import { Stage, type StageOptions } from '../../stage/stage.ts';
import { buildProgram, PROGRAMS_FOLDER, type ProgramName } from './build-program.ts';

/** What is in front of a controller, as a service sees it: an address whose target may change. */
export type Front = FaultProxy & { readonly url: string };

/** A fact of the event stream, with its time in the clock of this machine. */
export interface Fact {
  readonly key: string;
  readonly kind: string;
  readonly leaseId: string;
  readonly token: string;
  readonly atMs: number;
}

/** A question that takes no longer says when a lease expires well enough. */
const QUICK_MS = 5;
const ASKS_MAX = 20;

export class LeaseStage {
  readonly stage: Stage;
  /** Of an administrator, who may hold leases too. */
  readonly token: string;
  readonly #built = new Map<ProgramName, Promise<string>>();

  private constructor(stage: Stage, token: string) {
    this.stage = stage;
    this.token = token;
  }

  /** On a database of its own, unless one is given, with this many controllers. */
  static async open(
    options: StageOptions & { readonly controllersCount?: number } = {},
  ): Promise<LeaseStage> {
    const { controllersCount = 1, ...rest } = options;
    const stage = await Stage.open(rest);
    stage.onClose(() => rm(PROGRAMS_FOLDER, { recursive: true, force: true, maxRetries: 10 }));
    await Promise.all(Array.from({ length: controllersCount - 1 }, () => stage.startController()));
    const text = await readFile(path.join(stage.folder, 'home', 'credentials.json'), 'utf8');
    return new LeaseStage(stage, (JSON.parse(text) as { admin: string }).admin);
  }

  controller(index = 0): ControllerProcess {
    const controller = this.stage.controllers[index];
    if (controller === undefined) throw new Error(`no controller ${String(index)}`);
    return controller;
  }

  /** A network of its own in front of a controller. */
  async front(index = 0): Promise<Front> {
    const proxy = await startFaultProxy({ host: '127.0.0.1', port: this.controller(index).port });
    this.stage.onClose(() => proxy.close());
    return Object.assign(proxy, { url: `http://127.0.0.1:${String(proxy.port)}` });
  }

  /** Starts a program; it is asked to end when the stage is closed. */
  async start(name: ProgramName, settings: object, label: string = name): Promise<TestProcess> {
    let built = this.#built.get(name);
    if (built === undefined) {
      built = buildProgram(name);
      this.#built.set(name, built);
    }
    const started = await startProcess({
      name: label,
      args: ['--enable-source-maps', await built, JSON.stringify(settings)],
      env: {},
    });
    this.stage.onClose(async () => {
      await started.kill();
      await writeFile(path.join(this.stage.folder, `${label}.log`), started.log());
    });
    return started;
  }

  /** One statement, on a connection of its own. */
  async query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return this.#connected(async (client) => (await client.query<Row>(text, values)).rows);
  }

  /** Works on a connection of its own. */
  async #connected<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client(connectionOf(this.stage.databaseUrl));
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end();
    }
  }

  /**
   * When the grants of a namespace expire if not renewed, by lease id, in the clock of this machine:
   * never late, and early by no more than the question took. On a busy machine it is asked several times,
   * and the quickest answer counts. `inside`: the connection that asks, for one that has locked the table.
   */
  async expiries(namespace: string, inside?: pg.Client): Promise<Map<string, number>> {
    const ask = async (client: pg.Client): Promise<Map<string, number>> => {
      let quickest = { tookMs: Infinity, expiries: new Map<string, number>() };
      for (let tries = 0; tries < ASKS_MAX && quickest.tookMs > QUICK_MS; tries += 1) {
        const askedAtMs = machineMs();
        const { rows } = await client.query<{ lease_id: string; remaining_ms: number }>(
          `select lease_id::text,
            extract(epoch from expires_at - clock_timestamp())::float8 * 1000 as remaining_ms
          from lease where face = 'lease' and namespace = $1`,
          [namespace],
        );
        const tookMs = machineMs() - askedAtMs;
        if (tookMs >= quickest.tookMs) continue;
        const expiries = rows.map((row) => [row.lease_id, askedAtMs + row.remaining_ms] as const);
        quickest = { tookMs, expiries: new Map(expiries) };
      }
      return quickest.expiries;
    };
    return inside === undefined ? this.#connected(ask) : ask(inside);
  }

  /** What happened to grants in a namespace, in order; a renewal that was refused changed nothing. */
  async facts(namespace: string): Promise<Fact[]> {
    return this.#connected(async (client) => {
      const askedAtMs = machineMs();
      const { rows } = await client.query<Fact>(
        `select name as key, kind, lease_id::text as "leaseId", fencing_token::text as token,
          extract(epoch from at - clock_timestamp())::float8 * 1000 as "atMs"
        from lease_event
        where face = 'lease' and namespace = $1 and kind <> 'renewal_refused' order by id`,
        [namespace],
      );
      return rows.map((fact) => ({ ...fact, atMs: askedAtMs + fact.atMs }));
    });
  }

  /** Who holds what in a namespace now, by the database's clock: tokens by key. */
  async held(namespace: string): Promise<Map<string, string>> {
    const rows = await this.query<{ name: string; token: string }>(
      `select name, fencing_token::text as token from lease
      where face = 'lease' and namespace = $1
        and released_at is null and end_reason is null and clock_timestamp() < expires_at`,
      [namespace],
    );
    return new Map(rows.map((row) => [row.name, row.token]));
  }

  /** Ends everything. The folder is kept, and named, when something went wrong. */
  async close(file?: RunnerTestSuite): Promise<void> {
    await this.stage.close(file);
  }
}

/** Fulfilled when this much time has passed: how long a fault lasts. */
export async function untilPassed(ms: number): Promise<void> {
  const endMs = machineMs() + ms;
  await waitUntil(() => machineMs() >= endMs, { timeoutMs: ms + 10_000, pollMs: 5 });
}
