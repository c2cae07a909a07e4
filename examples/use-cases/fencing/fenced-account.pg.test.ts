import { randomUUID } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { createTestDatabase } from '@leasehold/testing';
import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Fenced, FencedAccount } from './fenced-account.ts';
import { startService, type Service } from '../testing/service.ts';

/** A database that has nothing of Leasehold except the column for the token. */
async function openBank(): Promise<pg.Client> {
  const { url } = await createTestDatabase();
  const bank = new pg.Client({ connectionString: url });
  await bank.connect();
  onTestFinished(() => bank.end());
  await bank.query(await readFile(path.join(import.meta.dirname, 'fenced-account.sql'), 'utf8'));
  await bank.query(`insert into account values ('alice', 100)`);
  return bank;
}

/** Another holder of the account's lease; the one before has not answered for long. */
async function nextToken(service: Service): Promise<string> {
  await service.letLeasesExpire();
  const id = randomUUID();
  const answer = await service.coordinator.acquire(
    {
      key: () => id,
      scope: () => ({ namespace: ['account'], key: 'alice' }),
      durationMs: () => 60_000,
    },
    0,
  );
  if (answer.outcome !== 'granted') throw new Error(`held by ${answer.by}`);
  return answer.fencingToken;
}

async function balanceIn(bank: pg.Client): Promise<number> {
  const { rows } = await bank.query<{ balance: string }>('select balance from account');
  return Number(rows[0]?.balance);
}

describe('a fenced row in another database', () => {
  test('I3 a write with a smaller token is refused, and changes nothing', async () => {
    const service = await startService('runners/runner-liveness.sql');
    const bank = await openBank();
    const paused = new FencedAccount(bank, 'alice', await nextToken(service));
    const before = await paused.open();
    const present = new FencedAccount(bank, 'alice', await nextToken(service));

    const read = await present.open();
    const late = paused.write(before + 1n);

    await expect(late).rejects.toBeInstanceOf(Fenced);
    await expect(paused.open()).rejects.toBeInstanceOf(Fenced);
    expect(await balanceIn(bank)).toBe(100);
    await present.write(read + 10n);
    expect(await balanceIn(bank)).toBe(110);
  });

  test('I3 no update is lost among holders that are replaced at every point of their work', async () => {
    const service = await startService('runners/runner-liveness.sql');
    const bank = await openBank();
    let writtenCount = 0;
    const holders: { account: FencedAccount; read?: bigint }[] = [];

    // Each round has a new holder; older ones continue their work after it, most of them too late.
    for (let round = 0; round < 30; round += 1) {
      holders.push({ account: new FencedAccount(bank, 'alice', await nextToken(service)) });
      for (const holder of holders.filter((_, index) => (index + round) % 3 !== 0)) {
        try {
          if (holder.read === undefined) holder.read = await holder.account.open();
          else {
            await holder.account.write(holder.read + 1n);
            holder.read += 1n;
            writtenCount += 1;
          }
        } catch (error) {
          if (!(error instanceof Fenced)) throw error;
        }
      }
    }

    expect(writtenCount).toBeGreaterThan(0);
    expect(await balanceIn(bank)).toBe(100 + writtenCount);
  });
});
