import type { AcquireAnswer } from '@leasehold/keys-core/leases';
import {
  copyDatabase,
  replaceClock,
  SHIFTED_CLOCK,
  waitUntil,
  type ReplacedClock,
} from '@leasehold/testing';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { CliStage } from '../testing/cli-controller.ts';

const HOUR_MS = 3_600_000;
const STEP_MS = 90_000;

let cli: CliStage;
let clock: ReplacedClock;

beforeAll(async () => {
  cli = await CliStage.open({
    prepare: async (databaseUrl) => {
      clock = await replaceClock(databaseUrl, SHIFTED_CLOCK);
    },
  });
}, 60_000);

afterAll(async () => {
  await clock.close();
  await cli.close();
});

/** Asks for a lease of an hour, for a holder of its own. */
function acquire(key: string): Promise<AcquireAnswer> {
  return cli.api().leases.acquire.mutate({
    namespace: ['alarms'],
    key,
    ttlMs: HOUR_MS,
    localTimeMs: 0,
    holder: `holder of ${key}`,
  });
}

async function metric(name: string): Promise<number | undefined> {
  const authorization = `Bearer ${cli.env['LEASEHOLD_TOKEN'] ?? ''}`;
  const answer = await fetch(`${cli.controller().url}/metrics`, { headers: { authorization } });
  const text = await answer.text();
  const line = text.split('\n').find((each) => each.startsWith(`${name} `));
  return line === undefined ? undefined : Number(line.split(' ')[1]);
}

// The step is measured to some milliseconds, and shown in whole minutes.
test.each([
  { direction: 'forward', shiftMs: 2 * HOUR_MS + STEP_MS, text: /stepped forward by 2 h 0[01] m/u },
  { direction: 'back', shiftMs: STEP_MS, text: /stepped back by (?:1 h 59|2 h 00) m/u },
])(
  'a database clock that steps $direction is logged, counted, an alarm for an hour, and a finding of doctor',
  async ({ direction, shiftMs, text }) => {
    const before = (await metric('leasehold_clock_jumps_total')) ?? 0;
    await acquire(`held ${direction}`);

    await clock.set(shiftMs);

    const { clockJump } = await waitUntil(async () => {
      const overview = await cli.api().stats.overview.query({});
      const jumpMs = overview.clockJump?.jumpMs ?? 0;
      return (direction === 'back' ? jumpMs < 0 : jumpMs > 0) ? overview : undefined;
    });
    expect(await metric('leasehold_clock_jumps_total')).toBe(before + 1);
    expect(cli.controller().log()).toMatch(/the database's clock has jumped/u);
    expect(clockJump?.remainingMs).toBeGreaterThan(HOUR_MS / 2);
    expect(clockJump?.remainingMs).toBeLessThanOrEqual(HOUR_MS);
    const doctor = await cli.run('doctor');
    expect(doctor.stdout).toMatch(text);
    expect(doctor.stdout).toMatch(/is not taken over when it expires, until 20\d\d-/u);
  },
);

test('what a step forward of the clock has expired is not taken over, and the answer names its last holder', async () => {
  await acquire('stepped over');

  await clock.set(STEP_MS + 2 * HOUR_MS);
  await waitUntil(async () => ((await metric('leasehold_clock_jumps_total')) ?? 0) >= 3);

  expect(await acquire('stepped over')).toMatchObject({
    outcome: 'held',
    isExpiryUnconfirmed: true,
    by: 'holder of stepped over',
  });
  await clock.set(0);
});

test('a hold-off of a database that was put back is ended after a confirmation, with the reason and who gave it', async () => {
  // After it every hold-off lasts an hour.
  await acquire('before the copy');
  const copy = await copyDatabase(cli.databaseUrl);
  await waitUntil(async () => (await acquire('lost')).outcome === 'granted');
  await copy.untilPassed();
  await copy.putBack();

  const shown = await waitUntil(async () => {
    const { stdout } = await cli.run('hold-off', 'show');
    return stdout.startsWith('New grants are held off') ? stdout : undefined;
  });
  const words = ['hold-off', 'end', '--reason', 'all services were restarted'];
  const unconfirmed = await cli.run(...words);
  await expect(acquire('lost')).rejects.toMatchObject({
    data: { leaseholdCode: 'grant.hold_off' },
  });
  const ended = await cli.run(...words, '--yes');
  const again = await acquire('lost');
  const { items } = await cli.api().audit.list.query({ action: 'holdOff.end' });

  expect(shown).toMatch(
    /^New grants are held off since 20\S+Z, for (59 m \d\d s|1 h 00 m) more, until 20\S+Z\. .*a controller had seen a later state\.$/mu,
  );
  expect(unconfirmed).toMatchObject({ exitCode: 1, stdout: '' });
  expect(unconfirmed.stderr).toMatch(
    /still act on them until 20\S+Z[^]*two backends[^]*Add --yes/u,
  );
  expect(ended.stdout).toMatch(
    /^New grants are allowed from now on, (59 m \d\d s|1 h 00 m) early\.$/mu,
  );
  expect(again.outcome).toBe('granted');
  expect(items).toMatchObject([
    {
      action: 'holdOff.end',
      actor: 'bootstrap admin',
      resource: 'database',
      reason: 'all services were restarted',
      detail: { cause: 'controller' },
    },
  ]);
  expect((await cli.run('hold-off', 'show')).stdout).toBe('New grants are not held off.\n');
});
