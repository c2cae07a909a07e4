import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { SocketWardenLink } from '../agent/warden-link.ts';
import { readWardenRecord } from '../records.ts';
import { testedDrone, type TestedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import { createEar, linkOptions, startOf, startWarden } from '../testing/warden-fixture.ts';

let drone: TestedDrone;
beforeAll(() => {
  drone = testedDrone();
});
afterAll(() => {
  drone[Symbol.dispose]();
});

const nowhere = { socketPath: '/nowhere', secret: '' };

describe.concurrent('warden', () => {
  test('ends by itself when nobody needs it, and at once when it is told to', async ({
    expect,
  }) => {
    await using idle = await startWarden(drone);
    await using told = await startWarden(drone);
    const { link } = await told.connect();
    const marker = `leasehold-${randomUUID()}`;
    await link.start(startOf(`exec -a ${marker} sleep 600`, { command: '/bin/bash' }));

    await link.shutdown();

    await until('the told one ends', () => told.process.exitCode === 0);
    expect(processesWith(marker)).toEqual([]);
    await until('the idle one ends', () => idle.process.exitCode === 0);
    const record = readWardenRecord(idle.stateDir);
    await expect(
      SocketWardenLink.connect(record ?? nowhere, linkOptions(createEar())),
    ).rejects.toThrow('no warden listens');
  });

  test('stays under 60 MB with fifty backends', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    for (let count = 0; count < 50; count += 1) await link.start(startOf('exec sleep 600'));

    const status = readFileSync(`/proc/${String(warden.pid)}/status`, 'utf8');
    const residentKb = Number(/^VmRSS:\s+(\d+)/mu.exec(status)?.[1]);

    expect(residentKb).toBeGreaterThan(0);
    expect(residentKb).toBeLessThan(60_000);
  });
});
