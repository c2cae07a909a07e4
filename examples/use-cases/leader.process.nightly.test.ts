import path from 'node:path';
import { expectPrompt, startProcess, waitUntil, type TestProcess } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { startService } from './testing/service.ts';

const TTL_MS = 3_000;
const CANDIDATE = path.join(import.meta.dirname, 'testing', 'candidate.ts');

/** A controller in a process of its own, from its source. */
async function startCandidate(databaseUrl: string, address: string): Promise<TestProcess> {
  const candidate = await startProcess({
    name: address,
    args: [
      '--conditions=@leasehold/source',
      '--import',
      'tsx',
      CANDIDATE,
      databaseUrl,
      address,
      String(TTL_MS),
    ],
    env: {},
  });
  onTestFinished(() => candidate.kill());
  return candidate;
}

test('I10 another leads within TTL + 1 s after a leader was killed, and at once after it stepped down', async () => {
  const { databaseUrl, sql, ourSql } = await startService('runners/runner-liveness.sql');
  const candidates = new Map<string, TestProcess>();
  for (const address of ['a', 'b', 'c']) {
    candidates.set(address, await startCandidate(databaseUrl, address));
  }
  const leader = (): Promise<string> =>
    waitUntil(async () => {
      const rows = await ourSql<{ holder: string }>(
        'select holder from lease where end_reason is null and expires_at > clock_timestamp()',
      );
      const [holder] = rows.map((row) => row.holder);
      return holder !== undefined && candidates.has(holder) && holder;
    });
  const first = await leader();

  await candidates.get(first)?.kill();
  candidates.delete(first);
  const [killed] = await sql<{ at: Date }>('select clock_timestamp() as at');
  const second = await leader();
  await candidates.get(second)?.stop();
  candidates.delete(second);
  const third = await leader();

  const events = await ourSql<{ kind: string; at: Date }>(
    'select kind, at from lease_event order by id',
  );
  const takenOver = events.find(({ kind }) => kind === 'taken_over');
  const vacantMs = Number(takenOver?.at) - Number(killed?.at);
  expect(new Set([first, second, third]).size).toBe(3);
  expect(events.map(({ kind }) => kind)).toEqual([
    'granted',
    'expired',
    'taken_over',
    'released',
    'granted',
  ]);
  expectPrompt(vacantMs, TTL_MS + 1_000);
});
