import { randomUUID } from 'node:crypto';
import { waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CliStage, heldLease } from '../testing/cli-controller.ts';
import { startByNpx } from '../testing/npx.ts';

let cli: CliStage;
beforeAll(async () => {
  cli = await CliStage.open();
}, 60_000);
afterAll(() => cli.close());

describe('started by npx, which passes no signal on,', () => {
  test.each([
    ['acquire', []],
    ['run', ['--', 'true']],
  ])('a command that waits in line leaves it when npx has ended: %s', async (what, command) => {
    const name = `step-${randomUUID()}`;
    const waitersCount = async (): Promise<number> =>
      (await cli.api().leases.waiters.query({ name, namespace: 'steps' })).items.length;
    await heldLease(cli.api(), ['steps'], name);
    const npx = startByNpx(cli, what, `steps/${name}`, '--wait', '1m', ...command);
    await waitUntil(async () => (await waitersCount()) === 1);
    npx.kill('SIGTERM');

    await expect.poll(waitersCount, { timeout: 30_000 }).toBe(0);
    // It was not granted.
    const view = await cli.api().leases.get.query({ name, namespace: 'steps' });
    expect(view).toMatchObject({ phase: 'held', holder: 'worker-1' });
  });
});
