import path from 'node:path';
import { startProcess, waitUntil, type TestProcess } from '@leasehold/testing';
import { expect, onTestFinished, test } from 'vitest';
import { runOurSql, runSql, startService } from './testing/service.ts';

const TTL_MS = 3_000;
const CANDIDATE = path.join(import.meta.dirname, 'testing', 'candidate.ts');

/** A controller in a process of its own, from its source. */
async function startCandidate(databaseUrl: string, address: string): Promise<TestProcess> {
  const candidate = await startProcess({
    name: address,
    args: [
      ...['--conditions=@leasehold/source', '--import', 'tsx'],
      ...[CANDIDATE, databaseUrl, address, String(TTL_MS)],
    ],
    env: {},
  });
  onTestFinished(() => candidate.kill());
  return candidate;
}

test('I10 after a leader was killed another leads within TTL + 1 s, and after one stepped down at once', async () => {
  const { databaseUrl } = await startService('runners/runner-liveness.sql');
  const candidates = new Map<string, TestProcess>();
  for (const address of ['a', 'b', 'c']) {
    candidates.set(address, await startCandidate(databaseUrl, address));
  }
  const leader = (): Promise<string> =>
    waitUntil(async () => {
      const rows = await runOurSql<{ holder: string }>(
        databaseUrl,
        'select holder from lease where end_reason is null and expires_at > clock_timestamp()',
      );
      const [holder] = rows.map((row) => row.holder);
      return holder !== undefined && candidates.has(holder) && holder;
    });
  const first = await leader();

  await candidates.get(first)?.kill();
  candidates.delete(first);
  const [killed] = await runSql<{ at: Date }>(databaseUrl, 'select clock_timestamp() as at');
  const second = await leader();
  await candidates.get(second)?.stop();
  candidates.delete(second);
  const third = await leader();

  const events = await runOurSql<{ kind: string; at: Date }>(
    databaseUrl,
    'select kind, at from lease_event order by id',
  );
  const takenOver = events.find(({ kind }) => kind === 'taken_over');
  const vacantMs = Number(takenOver?.at) - Number(killed?.at);
  expect(new Set([first, second, third]).size).toBe(3);
  expect(vacantMs).toBeLessThanOrEqual(TTL_MS + 1_000);
  expect(events.map(({ kind }) => kind)).toEqual([
    ...['granted', 'expired', 'taken_over', 'released', 'granted'],
  ]);
});
