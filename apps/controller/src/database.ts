/** The database of a controller: brought to this version, opened, checked, and watched from outside. */
import { mkdirSync, readFileSync } from 'node:fs';
import { rename, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { isSameLadder, LeaseError, LIMITS, type Clock, type IdSource } from '@leasehold/keys-core';
import { makeFirstToken, writeFirstCredentials } from '@leasehold/keys-core/access';
import { noteKeyLadder, readKeyLadders } from '@leasehold/keys-core/grants';
import {
  connectionProblems,
  createDatabase,
  findMigrationsDir,
  migrate,
  openStore,
  poolerProblem,
  readDatabaseSettings,
  readHoldOff,
  supervisePostgres,
  type DatabaseSettings,
  type Store,
  type StoreMemory,
  type StoreObserver,
  type WitnessNotice,
} from '@leasehold/keys-core/postgres';
import { connectionOf, jsonOf, readBootId, withSchema, type Logger } from '@leasehold/service-kit';
import { deathText, type Supervision } from '@leasehold/service-kit/supervision';
import type { Registry } from 'prom-client';
import { z } from 'zod';
import type { ControllerConfig } from './config.ts';
import { addHoldOffGauge, countHoldOffs } from './metrics.ts';

/** The database of a controller, with the schema of this version. */
interface Database {
  readonly url: string;
  /** Rejects when it is our own and died too often. */
  readonly failed: Promise<never>;
  /** Ends the PostgreSQL that was started for it, if one was. */
  stop(): Promise<void>;
}

interface DatabaseDeps {
  readonly log: Logger;
  readonly supervision: Supervision;
}

/**
 * The database that is configured, or one of our own under the home, brought to the schema of this
 * version. Replicas may do this at the same moment.
 *
 * @throws {LeaseError} `store.unavailable`, `config.invalid`.
 */
export async function prepareDatabase(
  config: ControllerConfig,
  deps: DatabaseDeps,
): Promise<Database> {
  const { log } = deps;
  const database =
    config.databaseUrl === null ? await ownDatabase(config, deps) : configured(config.databaseUrl);
  try {
    const { applied } = await migrate(database.url, findMigrationsDir());
    if (applied.length > 0) log.info({ applied }, 'migrations applied');
    return database;
  } catch (error) {
    await database.stop();
    throw error instanceof LeaseError
      ? error
      : new LeaseError('store.unavailable', 'The migrations could not be applied.', {
          cause: error,
        });
  }
}

const NEVER = new Promise<never>(() => undefined);

function configured(url: string): Database {
  return { url, failed: NEVER, stop: () => Promise.resolve() };
}

const OWN_DATABASE = 'leasehold';

async function ownDatabase(
  config: ControllerConfig,
  { log, supervision }: DatabaseDeps,
): Promise<Database> {
  let fail = (_error: Error): void => undefined;
  const failed = new Promise<never>((_resolve, reject) => (fail = reject));
  failed.catch(() => undefined);
  const postgres = await supervisePostgres({
    dataDir: join(config.home, 'postgres'),
    supervision,
    log: (line) => log.debug({ line }, 'postgres'),
    hooks: {
      restarting: (_name, death, delayMs) =>
        log.error({ delayMs }, `PostgreSQL ${deathText(death)}; starting it again`),
      restarted: () => log.warn('PostgreSQL runs again'),
      gaveUp: (_name, death) =>
        fail(new LeaseError('store.unavailable', `PostgreSQL ${deathText(death)}, too often.`)),
    },
  });
  const { port, lostPort, dir, notice } = postgres;
  if (notice !== undefined) log.warn({ dir }, notice);
  if (lostPort !== undefined) {
    log.warn({ port, lostPort }, 'another program uses the port of PostgreSQL');
  }
  const url = withSchema(postgres.url(OWN_DATABASE), config.schema);
  await createDatabase(url);
  log.info({ port }, 'DATABASE_URL is not set: started a PostgreSQL of our own');
  return { url, failed, stop: () => postgres.stop() };
}

export interface ControllerDeps {
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly log: Logger;
}

type Config = Omit<ControllerConfig, 'databaseUrl' | 'schema'> & { readonly databaseUrl: string };

export function openControllerStore(
  config: Config,
  { clock, ids, log }: ControllerDeps,
  { registry, observer }: { readonly registry: Registry; readonly observer: StoreObserver },
): Store {
  const holdOffs = countHoldOffs(registry);
  const store = openStore({
    databaseUrl: config.databaseUrl,
    datacenter: config.datacenter,
    clock,
    ids,
    renewalTimeoutMs: Math.floor((config.ladder.softAfterMs - config.ladder.renewAfterMs) / 3),
    ...openMemoryFile(config.home, readBootId()),
    onWitness: (notice) => {
      if (notice.kind === 'held_off') holdOffs.inc({ cause: notice.cause });
      logNotice(notice, log);
    },
    observer: {
      ...observer,
      clockJump(jumpMs) {
        observer.clockJump(jumpMs);
        log.error(
          { jumpMs },
          "the database's clock has jumped: grants that expired by it are not taken over yet",
        );
      },
    },
    onBackgroundError: (error) => log.warn({ err: error }, 'database connection'),
  });
  addHoldOffGauge(registry, async () => (await readHoldOff(store.general))?.remainingMs ?? 0);
  return store;
}

/** Logs for operators what was found about the database. */
function logNotice(notice: WitnessNotice, log: Logger): void {
  switch (notice.kind) {
    case 'held_off':
      log.error(notice, 'the database was restored or failed over: new grants are held off');
      break;
    case 'other_database':
      log.warn('LEASEHOLD_HOME has the state of another database; it is ignored');
      break;
    case 'shared_row':
      log.warn('another process was started from the same image as this one; both continue');
      break;
  }
}

/** Before a controller serves: checks that the database is fit, and whether it has lost history. */
export async function examineDatabase(store: Store, config: Config, log: Logger): Promise<void> {
  const pooler = await poolerProblem(config.databaseUrl);
  if (pooler !== undefined) throw unusable([pooler]);
  await store.reserve();
  const settings = await readDatabaseSettings(store.general);
  const { schema } = connectionOf(config.databaseUrl);
  for (const warning of checkDatabase(settings, schema)) log.warn(warning);
  await store.longestTtl.note(config.ladder.ttlMs);
  await store.witness.look();
  await compareLadders(store, config, log);
  const holdOff = await readHoldOff(store.general);
  if (holdOff !== null) log.warn(holdOff, 'no new grants for now: the database was restored');
  await seeToCredentials(store, config, log);
}

/** The first controller of a database writes the first tokens; the others log where they are. */
async function seeToCredentials(store: Store, config: Config, log: Logger): Promise<void> {
  const { home, firstToken } = config;
  if (firstToken !== null) {
    const isMade = await makeFirstToken(store, firstToken);
    if (isMade) {
      log.info('no administrator yet: the token of LEASEHOLD_FIRST_TOKEN is the first one');
    }
    return;
  }
  const path = resolve(join(home, 'credentials.json'));
  const ownPlace = `${hostname()}:${path}`;
  const { outcome, place } = await writeFirstCredentials(store, { path, place: ownPlace });
  if (outcome === 'written') log.info({ path }, 'no administrator yet: first tokens written');
  else if (place !== null && place !== ownPlace) {
    log.info(
      { place },
      'the first tokens of this database are in the home of another controller; `leasehold admin create` with this DATABASE_URL makes an administrator without them',
    );
  }
}

/** Each grant has its ladder with it, so different ladders break nothing, but nobody wants them. */
async function compareLadders(store: Store, { ladder }: Config, log: Logger): Promise<void> {
  await noteKeyLadder(store.general, store.witness.mark.witnessId, ladder);
  for (const other of await readKeyLadders(store.general)) {
    if (isSameLadder(other, ladder)) continue;
    log.warn(
      { own: ladder, other },
      'another controller on this database gives keys another ladder: give all the same LEASEHOLD_PRESET and LEASEHOLD_KEY_*_MS',
    );
  }
}

const POSTGRES_VERSION_MIN = 150_000;

/**
 * Checks that the database can keep our promises, and that these connections see our tables.
 * @returns warnings. @throws {LeaseError} `config.invalid` with every problem.
 */
export function checkDatabase(settings: DatabaseSettings, schema: string): string[] {
  const problems = connectionProblems(settings, schema);
  if (settings.versionNumber < POSTGRES_VERSION_MIN) {
    problems.push(`PostgreSQL 15 or later is needed, and this is ${settings.version}`);
  }
  if (settings.synchronousCommit === 'off' || settings.synchronousCommit === 'local') {
    problems.push(
      `synchronous_commit is "${settings.synchronousCommit}": a crash could take back a grant or a renewal that was answered; set it to on`,
    );
  }
  if (problems.length > 0) throw unusable(problems);
  return settings.standbyCount > 0 && settings.synchronousStandbyNames === ''
    ? [
        'a standby exists and synchronous_standby_names is empty: a failover may lose grants and renewals',
      ]
    : [];
}

/** What is thrown for a database that does not keep our promises. */
function unusable(problems: readonly string[]): LeaseError {
  return new LeaseError('config.invalid', `The database cannot be used: ${problems.join('; ')}.`, {
    details: { problems },
  });
}

// What a controller remembers of its database over a restart, in a file of its home: how far it has
// seen it get, so that a restore does not go unnoticed; the longest TTL that was granted, so that
// grants are held off long enough after one; and for how long the database's clock was watched.

const FILE = 'witness.json';

const fileSchema = z.object({
  version: z.literal(1),
  longestTtlMs: z.number().int().min(0).max(LIMITS.ttlMsMax),
  stamp: z.string().optional(),
  watch: z
    .object({
      /** Readings of a machine's clock mean nothing after it has booted again. */
      bootId: z.string(),
      atMs: z.number(),
      lowestMs: z.number(),
      highestMs: z.number(),
      watchedSince: z.number(),
    })
    .optional(),
});

interface MemoryFile {
  readonly remembered: StoreMemory;
  /** Replaces the file whole. Fulfilled when it holds this, or something newer. */
  keep(memory: StoreMemory): Promise<void>;
}

/** `bootId` names the boot of this machine; undefined if it is not known. */
export function openMemoryFile(home: string, bootId: string | undefined): MemoryFile {
  mkdirSync(home, { recursive: true });
  const path = join(home, FILE);
  // One for each process: controllers that share a home must not write into one file at once.
  const draft = `${path}.${String(process.pid)}.new`;
  const remembered = readMemory(home, bootId);
  let { longestTtlMs } = remembered;
  let newest: StoreMemory = remembered;
  let writing = Promise.resolve();
  let queued: Promise<void> | undefined;

  const write = async (): Promise<void> => {
    queued = undefined;
    const { stamp, watch } = newest;
    const text = JSON.stringify({
      version: 1,
      longestTtlMs,
      stamp,
      watch: watch === undefined || bootId === undefined ? undefined : { ...watch, bootId },
    });
    await writeFile(draft, `${text}\n`, { mode: 0o600 });
    await rename(draft, path);
  };
  return {
    remembered,
    keep(memory) {
      newest = memory;
      longestTtlMs = Math.max(longestTtlMs, memory.longestTtlMs);
      if (queued === undefined) {
        queued = writing.then(write);
        writing = queued.catch(() => undefined);
      }
      return queued;
    },
  };
}

function readMemory(home: string, bootId: string | undefined): StoreMemory {
  const text = readText(join(home, FILE));
  if (text === undefined) return { longestTtlMs: 0 };
  const parsed = fileSchema.safeParse(jsonOf(text));
  // A file that cannot be read may have held the longest TTL that there is.
  if (!parsed.success) return { longestTtlMs: LIMITS.ttlMsMax };
  const { longestTtlMs, stamp, watch } = parsed.data;
  return { longestTtlMs, stamp, watch: watch?.bootId === bootId ? watch : undefined };
}

/** Undefined if there is no file; empty, and so no JSON, if it cannot be read. */
function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT' ? undefined : '';
  }
}
