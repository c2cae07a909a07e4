import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { expectPrompt, startProcess, waitUntil } from '@leasehold/testing';
import { makeNotes } from '../testing/coordinator-fixture.ts';
import { aRequest, openKernel } from '../testing/kernel-fixture.ts';

const PROGRAM = path.join(import.meta.dirname, '..', 'testing', 'fenced-work-for-test.ts');
const TTL_MS = 2_000;
/** The time until the next check of this test, and until the server has ended a session. */
const LOOK_MS = 1_000;

describe('a process that is paused in a fenced transaction', () => {
  test('C56 C23 loses its lease to the next grant within the bound, and does no guarded work on waking', async () => {
    const kernel = await openKernel();
    const notes = await makeNotes(kernel);
    const worker = await startProcess({
      name: 'worker',
      args: [
        '--import',
        'tsx',
        '--conditions',
        '@leasehold/source',
        PROGRAM,
        kernel.databaseUrl,
        String(TTL_MS),
      ],
      env: {},
    });
    onTestFinished(() => worker.kill());

    worker.signal('SIGSTOP');
    const regrant = await waitUntil(
      async () => {
        const outcome = await kernel.leases.grant(aRequest({ holder: 'bob' }));
        return outcome.outcome === 'granted' ? outcome.grant : undefined;
      },
      { timeoutMs: 20_000, what: 'the regrant' },
    );
    worker.signal('SIGCONT');
    await worker.exited;

    const heldPastExpiryMs = regrant.grantedAt - Number(worker.ready['expiresAt']);
    expect(regrant.previous?.leaseId).toBe(worker.ready['leaseId']);
    expect(heldPastExpiryMs).toBeGreaterThanOrEqual(0);
    expectPrompt(heldPastExpiryMs, TTL_MS + LOOK_MS);
    expect(worker.log().trim().split('\n').at(-1)).toBe('["request.deadline","lease.not_held"]');
    expect(await notes()).toEqual([]);
  });
});
