/**
 * Deployments that supersede each other in real time. Some are killed, some stand still past their deadline and then
 * go on, some are cut off and stop by their own clock. What each believed that it might do is noted.
 */
import { seed, waitUntil } from '@leasehold/testing';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import { fencedTransaction } from '../grants/fenced-transaction.ts';
import type { GrantedLease } from '../leases/lease-types.ts';
import { aCaller, acquire, type Leases, openLeases, SERVICE } from './lease-fixture.ts';

const TTL_MS = 1_000;
const RENEW_EVERY_MS = 250;
/** Of two readings of clocks on one machine. */
const MARGIN_MS = 50;

type Fate = 'obedient' | 'killed' | 'frozen' | 'cut off';
const FATES: readonly Fate[] = ['obedient', 'killed', 'frozen', 'cut off'];

/** When a deployment began, and until when it believed that it may work. By the clock of this machine. */
interface Work {
  readonly environment: string;
  readonly token: bigint;
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface Races {
  readonly works: readonly Work[];
  /** How many requests were ended while they waited, and how many grants were revoked for a newer one. */
  readonly supersededCount: number;
  /** Writes of deployments whose time was over that were carried out nevertheless. */
  readonly staleWrites: readonly string[];
  /** The tokens of the writes that were carried out in each environment, in their order. */
  readonly writes: ReadonlyMap<string, readonly bigint[]>;
}

/** Lets `rounds` requests supersede each other in each of so many environments, through two controllers. */
export async function raceSuperseding(environments: number, rounds: number): Promise<Races> {
  const one = await openLeases({}, 'environment');
  const two = await openLeases({ databaseUrl: one.databaseUrl }, 'environment');
  await one.store.general
    .$executeRaw`create table written (id bigserial, environment text not null, token bigint not null)`;
  const works: Work[] = [];
  const staleWrites: string[] = [];
  await Promise.all(
    Array.from({ length: environments }, async (_, index) => {
      const pipeline = new Pipeline(`prod-${String(index)}`, [one, two], { works, staleWrites });
      await pipeline.run(rounds, index);
    }),
  );
  const [counted] = await one.store.general.$queryRaw<{ count: number }[]>`
    select count(*)::int as count from lease_event
    where kind = 'superseded' or (kind = 'revoked' and starts_with(reason, 'superseded by '))`;
  return { works, staleWrites, writes: await writesOf(one), supersededCount: counted?.count ?? 0 };
}

async function writesOf({ store }: Leases): Promise<Map<string, bigint[]>> {
  const rows = await store.general.$queryRaw<{ environment: string; token: string }[]>`
    select environment, token::text as token from written order by id`;
  const writes = new Map<string, bigint[]>();
  for (const { environment, token } of rows) {
    writes.set(environment, [...(writes.get(environment) ?? []), BigInt(token)]);
  }
  return writes;
}

/** Those whose work overlaps with that of the next one in their environment. */
export function overlapping(works: readonly Work[]): string[] {
  const inOrder = [...works].sort((a, b) => (a.token < b.token ? -1 : 1));
  return inOrder.flatMap((work, index) => {
    const next = inOrder.slice(index + 1).find((one) => one.environment === work.environment);
    return next !== undefined && next.fromMs < work.untilMs
      ? [
          `${work.environment} ${String(work.token)} until ${String(work.untilMs - next.fromMs)} ms after the next`,
        ]
      : [];
  });
}

interface Notes {
  readonly works: Work[];
  readonly staleWrites: string[];
}

class Pipeline {
  readonly #name: string;
  readonly #at: readonly Leases[];
  readonly #notes: Notes;
  /** Set when nothing supersedes the last one any more. */
  readonly #over = new AbortController();

  constructor(name: string, at: readonly Leases[], notes: Notes) {
    this.#name = name;
    this.#at = at;
    this.#notes = notes;
  }

  /** Starts a deployment whenever the one before it has begun; now and then two at once, of which one is superseded. */
  async run(rounds: number, index: number): Promise<void> {
    const generator = xoroshiro128plus(seed() + index);
    const draw = (limit: number): number => (generator.next() >>> 0) % limit;
    const running: Promise<void>[] = [];
    for (let round = 0; round < rounds; round += 1) {
      const wanted = Array.from({ length: 1 + (draw(4) === 0 ? 1 : 0) }, (_, of) =>
        this.#deploy(
          `v${String(round)}.${String(of)}`,
          draw(2),
          FATES[draw(FATES.length)] ?? 'killed',
        ),
      );
      // Each resolves when its work has begun, or when it was superseded.
      running.push(...(await Promise.all(wanted)).map(({ ended }) => ended));
    }
    this.#over.abort();
    await Promise.all(running);
  }

  async #deploy(version: string, at: number, fate: Fate): Promise<{ ended: Promise<void> }> {
    const leases = this.#at[at];
    if (leases === undefined) throw new Error('There are two controllers.');
    const sentAtMs = performance.now();
    const change = { namespace: '', name: this.#name, action: 'deploy', holder: version };
    const asked = { ...change, ttlMs: TTL_MS, waitMs: 60_000, supersede: 'running' } as const;
    try {
      const answer = await acquire(
        leases,
        { ...asked, localTimeMs: sentAtMs },
        { life: aCaller() },
      );
      if (answer.outcome !== 'granted') throw new Error(`It was not granted: ${answer.outcome}`);
      const begun = new Deployment(leases, this.#name, answer.lease, this.#notes);
      await begun.write();
      return { ended: begun.run(fate, this.#over.signal) };
    } catch (error) {
      if ((error as { code?: string }).code !== 'environment.superseded') throw error;
      return { ended: Promise.resolve() };
    }
  }
}

class Deployment {
  readonly #leases: Leases;
  readonly #environment: string;
  readonly #lease: GrantedLease;
  readonly #notes: Notes;
  readonly #fromMs = performance.now();
  #loseAtMs: number;

  constructor(leases: Leases, environment: string, lease: GrantedLease, notes: Notes) {
    this.#leases = leases;
    this.#environment = environment;
    this.#lease = lease;
    this.#notes = notes;
    this.#loseAtMs = lease.deadlines.loseAtMs;
  }

  /** One fenced write; what was carried out is in the table. */
  async write(): Promise<void> {
    const { fencingToken } = this.#lease;
    await fencedTransaction(
      this.#leases.store,
      this.#lease,
      (tx) => tx.$executeRaw`
        insert into written (environment, token) values (${this.#environment}, ${fencingToken}::bigint)`,
      // Refused, or too slow on a busy machine: nothing that a race counts on.
    ).catch(() => undefined);
  }

  async run(fate: Fate, over: AbortSignal): Promise<void> {
    if (fate === 'killed') {
      this.#note(performance.now());
      return;
    }
    if (fate === 'obedient') {
      while (!over.aborted && (await this.#renew())) await this.write();
      this.#note(performance.now());
      const released = this.#leases.service.release({ ...this.#lease, result: 'ok' }, SERVICE);
      await released.catch(() => undefined);
      return;
    }
    // Cut off from the controller, it works until its own deadline; one that stands still does not notice that.
    while (fate === 'cut off' && performance.now() + RENEW_EVERY_MS < this.#loseAtMs) {
      await this.write();
      await until(performance.now() + RENEW_EVERY_MS / 2);
    }
    this.#note(fate === 'cut off' ? this.#loseAtMs : performance.now());
    await this.#writeLate();
  }

  /** Renews after a while. @returns whether it may go on. */
  async #renew(): Promise<boolean> {
    await until(performance.now() + RENEW_EVERY_MS);
    const sentAtMs = performance.now();
    const renewals = [this.#lease];
    const sent = { localTimeMs: sentAtMs, renewals };
    const results = await this.#leases.service.heartbeat(sent, SERVICE).catch(() => []);
    const result = results[0];
    if (result?.outcome !== 'renewed') return false;
    this.#loseAtMs = result.deadlines.loseAtMs;
    return true;
  }

  /** It wakes after its grant is over, and writes as if it were not. */
  async #writeLate(): Promise<void> {
    // It was granted before its answer came. Its own deadline may be earlier than its expiry by the time that it took to join.
    await until(this.#fromMs + TTL_MS + MARGIN_MS);
    const { fencingToken } = this.#lease;
    const late = fencedTransaction(
      this.#leases.store,
      this.#lease,
      (tx) => tx.$executeRaw`
        insert into written (environment, token) values (${this.#environment}, ${fencingToken}::bigint)`,
    );
    await late.then(
      () => this.#notes.staleWrites.push(`${this.#environment} ${fencingToken}`),
      () => undefined,
    );
  }

  /** Whatever it was about then, its own deadline has ended its work. */
  #note(atMs: number): void {
    const token = BigInt(this.#lease.fencingToken);
    const untilMs = Math.min(atMs, this.#loseAtMs);
    this.#notes.works.push({
      environment: this.#environment,
      token,
      fromMs: this.#fromMs,
      untilMs,
    });
  }
}

const until = (atMs: number): Promise<unknown> =>
  waitUntil(() => performance.now() >= atMs, { pollMs: 10 });
