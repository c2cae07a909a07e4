/** Deployments of real processes under `env run` that supersede each other, while some are killed, frozen or cut off. */
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { seed, startFaultProxy, waitUntil, type FaultProxy } from '@leasehold/testing';
import { commandLineOf, processesWith, signalProcess } from '@leasehold/testing/stack';
import { onTestFinished } from 'vitest';
import { xoroshiro128plus } from 'pure-rand/generator/xoroshiro128plus';
import type { CliStage } from './cli-controller.ts';
import { startCommand, type Started } from './command-line.ts';

const DEPLOYMENT = fileURLToPath(new URL('deployment.mjs', import.meta.url));
const TABLE = 'public.deployed';
const TTL = '3s';
/** From the end of a lease that is not released to the first note of the next, on a busy machine. */
const NEXT_MS_MAX = 60_000;

/** What becomes of a deployment when the next one asks. `stopped`: the command, and not `env run`. */
const FATES = ['obedient', 'stubborn', 'killed', 'frozen', 'stopped', 'cut off'] as const;
type Fate = (typeof FATES)[number];

export interface DeploymentRaces {
  /** How many grants were revoked for a newer request. */
  readonly supersededCount: number;
  /** Those that were at work before the one before them in their environment had ended. */
  readonly overlaps: readonly string[];
  /** Writes that were accepted after one with a larger token. */
  readonly staleWrites: readonly string[];
  readonly writesCount: number;
}

interface Work {
  readonly token: string;
  readonly fromUs: number;
  readonly untilUs: number;
}

interface Runner {
  readonly started: Started;
  readonly network: FaultProxy;
  /** Ends it, whatever state it is in. */
  readonly end: () => Promise<void>;
}

export async function raceDeployments(
  cli: CliStage,
  { environments, rounds }: { readonly environments: number; readonly rounds: number },
): Promise<DeploymentRaces> {
  await cli.query(
    `create table if not exists ${TABLE} (id bigserial, file text not null, token bigint not null)`,
  );
  const logs = await Promise.all(
    Array.from({ length: environments }, (_, index) => raceIn(cli, { index, rounds })),
  );
  const works = await Promise.all(logs.map((log) => log.read()));
  const [counted] = await cli.query<{ count: number }>(
    `select count(*)::int as count from leasehold.lease_event
     where kind = 'revoked' and starts_with(reason, 'superseded by ')`,
  );
  const writes = await cli.query<{ file: string; token: string; isStale: boolean }>(
    `select file, token::text as token, token < max(token) over (
        partition by file order by id rows between unbounded preceding and 1 preceding
      ) as "isStale"
     from ${TABLE}`,
  );
  return {
    supersededCount: counted?.count ?? 0,
    overlaps: works.flatMap(overlapsOf),
    staleWrites: writes.filter(({ isStale }) => isStale).map(({ token }) => token),
    writesCount: writes.length,
  };
}

/**
 * Starts a deployment whenever the one before has begun, and lets that one meet its fate when it is about to be superseded.
 * One that is frozen wakes when the next is at work.
 */
async function raceIn(
  cli: CliStage,
  { index, rounds }: { readonly index: number; readonly rounds: number },
): Promise<WorkLog> {
  const file = join(cli.folder, `works-${String(index)}`);
  const log = new WorkLog(file);
  const generator = xoroshiro128plus(seed() + index);
  const first = (generator.next() >>> 0) % FATES.length;
  let former: { readonly runner: Runner; readonly fate: Fate } | undefined;
  let superseded: Runner | undefined;
  for (let round = 0; round < rounds; round += 1) {
    // All of them in turn, so that few rounds have each.
    const fate = FATES[(first + round) % FATES.length] ?? 'obedient';
    const runner = await startRunner(cli, { index, file, round, isStubborn: fate === 'stubborn' });
    await waitUntil(() => runner.network.connectionsCount > 0, {
      what: `the first call of deployment ${String(round)} in ${file}`,
      timeoutMs: NEXT_MS_MAX,
    });
    if (former !== undefined) {
      const token = (await log.read()).at(-1)?.token ?? '';
      meet(former.fate, former.runner, { token, file });
    }
    await waitUntil(async () => (await log.read()).length > round, {
      what: `deployment ${String(round)} in ${file}`,
      timeoutMs: NEXT_MS_MAX,
    });
    former?.runner.started.child.kill('SIGCONT');
    await superseded?.end();
    superseded = former?.runner;
    former = { runner, fate };
  }
  return log;
}

async function startRunner(
  cli: CliStage,
  of: {
    readonly index: number;
    readonly file: string;
    readonly round: number;
    readonly isStubborn: boolean;
  },
): Promise<Runner> {
  const network = await startFaultProxy({ host: '127.0.0.1', port: cli.controller().port });
  const { index, file, round, isStubborn } = of;
  const version = String(round);
  const started = startCommand(
    [
      ...['env', 'run', `ci/race-${String(index)}`, '--action', 'deploy', '--version', version],
      ...['--ttl', TTL, '--wait', '10m', '--supersede-running', '--holder', `ci-${version}`, '--'],
      ...[process.execPath, DEPLOYMENT, file, TABLE, isStubborn ? 'stubborn' : 'gentle'],
    ],
    {
      ...cli.env,
      LEASEHOLD_URL: `http://127.0.0.1:${String(network.port)}`,
      DATABASE_URL: cli.databaseUrl,
    },
  );
  let ending: Promise<void> | undefined;
  const end = (): Promise<void> => {
    started.child.kill('SIGKILL');
    ending ??= started.ended.then(() => network.close());
    return ending;
  };
  onTestFinished(end);
  return { started, network, end };
}

interface Deployed {
  readonly token: string;
  /** Where it notes that it is at work. */
  readonly file: string;
}

function meet(fate: Fate, { started, network }: Runner, deployed: Deployed): void {
  switch (fate) {
    case 'obedient':
    case 'stubborn':
      return;
    case 'killed':
      started.child.kill('SIGKILL');
      return;
    case 'frozen':
      started.child.kill('SIGSTOP');
      return;
    case 'stopped':
      for (const pid of deploymentsOf(deployed)) signalProcess(pid, 'SIGSTOP');
      return;
    case 'cut off':
      network.drop();
  }
}

/** The processes that work under this token. Those of another database may have the same one. */
function deploymentsOf({ token, file }: Deployed): number[] {
  return processesWith(`LEASEHOLD_FENCING_TOKEN=${token}\0`, 'environ').filter((pid) =>
    commandLineOf(pid).includes(`${file} `),
  );
}

/** Reads what deployments note in a file while they note it. */
class WorkLog {
  readonly #file: string;
  readonly #works = new Map<string, Work>();
  #readBytes = 0;
  #rest = '';

  constructor(file: string) {
    this.#file = file;
  }

  /** Of each token so far, the smallest first. */
  async read(): Promise<readonly Work[]> {
    for (const line of await this.#lines()) {
      const [token = '', at] = line.split(' ');
      const atUs = Number(at);
      const { fromUs = atUs } = this.#works.get(token) ?? {};
      this.#works.set(token, { token, fromUs, untilUs: atUs });
    }
    return [...this.#works.values()].sort((a, b) => (BigInt(a.token) < BigInt(b.token) ? -1 : 1));
  }

  async #lines(): Promise<string[]> {
    await using file = await open(this.#file, 'a+');
    const piece = Buffer.alloc((await file.stat()).size - this.#readBytes);
    const { bytesRead } = await file.read(piece, 0, piece.length, this.#readBytes);
    this.#readBytes += bytesRead;
    const lines = (this.#rest + piece.toString('utf8', 0, bytesRead)).split('\n');
    this.#rest = lines.pop() ?? '';
    return lines;
  }
}

function overlapsOf(works: readonly Work[]): string[] {
  return works.flatMap(({ token, untilUs }, index) => {
    const next = works[index + 1];
    if (next === undefined || untilUs <= next.fromUs) return [];
    return [`${token} until ${String((untilUs - next.fromUs) / 1_000)} ms after ${next.token}`];
  });
}
