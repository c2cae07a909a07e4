/** The database of a controller: opened, checked, and watched from outside. */
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import { isSameLadder, type Clock, type IdSource } from '@leasehold/keys-core';
import { noteKeyLadder, readKeyLadders } from '@leasehold/keys-core/grants';
import {
  openStore,
  poolerProblem,
  readDatabaseSettings,
  readHoldOff,
  type Store,
  type StoreObserver,
  type WitnessNotice,
} from '@leasehold/keys-core/postgres';
import { makeFirstToken, writeFirstCredentials } from '@leasehold/keys-core/access';
import { connectionOf, readBootId, type Logger } from '@leasehold/service-kit';
import type { Registry } from 'prom-client';
import type { ControllerConfig } from '../config.ts';
import { checkDatabase, unusable } from './database-checks.ts';
import { addHoldOffGauge, countHoldOffs } from './hold-off-metrics.ts';
import { openMemoryFile } from '../memory/memory-file.ts';

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
