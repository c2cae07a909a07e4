import { randomUUID } from 'node:crypto';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { leaseholdErrorOf } from '@leasehold/client';
import { createDatabase } from '@leasehold/keys-core/postgres';
import { waitUntil } from '@leasehold/testing';
import { FaultStage } from '../stage/stage.ts';
import type { HolderSettings } from '../leases/stage/holder.ts';
import { allWords } from '../leases/stage/words.ts';
import { machineMs } from '../stage/machine-time.ts';
import { startKillableDatabase, type KillableDatabase } from '../stage/killable-database.ts';

const TTL_MS = 6_000;
const TEST_MS_MAX = 180_000;
const KEYS = ['a', 'b', 'c', 'd', 'e'] as const;

let postgres: KillableDatabase;
let lease: FaultStage;

beforeAll(async () => {
  postgres = await startKillableDatabase();
  const databaseUrl = postgres.url('leasehold');
  await createDatabase(databaseUrl);
  lease = await FaultStage.open({ databaseUrl });
}, TEST_MS_MAX);
afterAll(async ({}, file) => {
  await (lease as FaultStage | undefined)?.close(file);
  await postgres.close();
});

/** The tokens of new grants, each released at once. @throws while grants are held off. */
async function tokensOf(keys: readonly string[]): Promise<bigint[]> {
  const tokens: bigint[] = [];
  for (const key of keys) {
    const api = lease.api();
    const answer = await api.leases.acquire.mutate({
      ...{ namespace: ['kept'], key, holder: randomUUID(), ttlMs: TTL_MS },
      localTimeMs: machineMs(),
    });
    if (answer.outcome !== 'granted') throw new Error(`${key} is held`);
    const { leaseId, fencingToken } = answer.lease;
    await api.leases.release.mutate({ leaseId, fencingToken });
    tokens.push(BigInt(fencingToken));
  }
  return tokens;
}

/** Who has seen how far the database was. Each begins, and says when it has seen these tokens. */
const WITNESSES = {
  'the home of a controller': () => {
    const file = path.join(lease.folder, 'home', 'witness.json');
    return Promise.resolve({
      cause: 'controller',
      async untilSeen(token: bigint) {
        await waitUntil(async () => tokenIn(await readFile(file, 'utf8')) >= token, {
          what: 'the newest token in the home',
        });
      },
      close: () => Promise.resolve(),
    });
  },
  'a client': async () => {
    const url = lease.controller().url;
    // It asks again if it has lost its lease meanwhile, as on a busy machine.
    const tasks = [{ url, key: 'witness', ttlMs: TTL_MS, takesAgain: true }];
    const settings = { token: lease.token, namespace: 'witness', tasks } satisfies HolderSettings;
    const holder = await lease.start('holder', settings, 'client');
    await waitUntil(() => allWords([holder], 'held').length > 0, { what: 'the lease of a client' });
    return {
      cause: 'holder',
      async untilSeen() {
        // The second renewal from now was surely sent after this moment.
        for (let times = 0; times < 2; times += 1) await untilRenewed('witness');
      },
      close: () => holder.kill(),
    };
  },
  'a drone': async () => {
    const stage = lease;
    const drone = await stage.startDrone({ droneId: 'd-1', programs: { one: 'stubborn' } });
    const backend = await stage.connect('room', 'one');
    return {
      cause: 'holder',
      untilSeen: () => stage.untilRenewed(backend, 2),
      close: () => drone.stop(),
    };
  },
} satisfies Record<string, () => Promise<Witness>>;

interface Witness {
  readonly cause: string;
  untilSeen(token: bigint): Promise<void>;
  close(): Promise<unknown>;
}

/** The largest token of the stamp in a home: the last part of it before its signature. */
function tokenIn(text: string): bigint {
  const { stamp = '' } = JSON.parse(text) as { stamp?: string };
  return BigInt(stamp.split('.').at(-2) ?? 0);
}

async function untilRenewed(namespace: string): Promise<void> {
  const expiry = async (): Promise<string | undefined> => {
    const text = 'select expires_at::text as at from lease where namespace = $1';
    const [row] = await lease.query<{ at: string }>(text, [namespace]);
    return row?.at;
  };
  const before = await expiry();
  await waitUntil(async () => (await expiry()) !== before, { what: 'a renewal' });
}

describe('C17 H-restore a base backup of the running database that is put back', () => {
  test.each(Object.keys(WITNESSES) as (keyof typeof WITNESSES)[])(
    'with %s as the only witness: nothing is granted until all grants are over, and every token is greater than every one before',
    async (name) => {
      const stage = lease;
      const witness: Witness = await WITNESSES[name]();
      const older = await tokensOf(KEYS);
      const backup = await postgres.backUp();
      // The clock of the database that is lost was ahead, as far as tokens show it.
      await lease.query(
        'update lease_token_floor set floor = greatest(floor, $1::bigint) + 7200000',
        [String(Date.now())],
      );
      const before = await tokensOf([...KEYS, 'new']);
      const largest = before.at(-1) ?? 0n;
      await witness.untilSeen(largest);
      const controller = lease.controller();
      await controller.kill();
      if (witness.cause !== 'controller') await rm(path.join(stage.folder, 'home', 'witness.json'));
      await postgres.kill();
      await postgres.putBack(backup);
      await stage.restartController(controller);

      const heldOff = await waitUntil(() => stage.api().holdOff.get.query(), {
        what: 'a hold-off',
      });
      const refusal = await tokensOf(KEYS).catch((error: unknown) => leaseholdErrorOf(error)?.code);
      const after = await waitUntil(() => tokensOf([...KEYS, 'new', 'never seen']), {
        what: 'new grants',
      });

      expect(heldOff.cause).toBe(witness.cause);
      expect(refusal).toBe('grant.hold_off');
      expect(largest).toBeGreaterThan(older.at(-1) ?? 0n);
      for (const token of after) expect(token).toBeGreaterThan(largest);
      await witness.close();
    },
    TEST_MS_MAX,
  );
});
