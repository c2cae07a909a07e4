import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { isRunning, processesWith } from '@leasehold/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { outputOf } from '../testing/backend-output.ts';
import { testedDrone, type TestedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import {
  claimStartOf,
  startOf,
  startWarden,
  warmOf,
  type WardenFixture,
} from '../testing/warden-fixture.ts';

let drone: TestedDrone;
beforeAll(() => {
  drone = testedDrone();
});
afterAll(() => {
  drone[Symbol.dispose]();
});

const bash = { command: '/bin/bash' };
const UNPRIVILEGED = { uid: 2_100_000_123, gid: 2_100_000_123 };

/** Says when it is up, waits for its claim, prints and removes it, and sleeps; recognisable by its command line. */
function taker(marker = `leasehold-${randomUUID()}`) {
  const script = [
    'echo up',
    'until [ -e "$LEASEHOLD_CLAIM_FILE" ]; do sleep 0.02; done',
    'stat -c "mode %a" "$LEASEHOLD_CLAIM_FILE"; cat "$LEASEHOLD_CLAIM_FILE"',
    'rm "$LEASEHOLD_CLAIM_FILE" && echo taken',
    `exec -a ${marker} sleep 600`,
  ].join('\n');
  return { marker, script: `: ${marker}\n${script}` };
}

async function untilUp({ stateDir }: WardenFixture, id: string): Promise<void> {
  await until('it is up', () => outputOf(stateDir, id).includes('up'));
}

const variables = { LEASEHOLD_KEY: 'demo', LEASEHOLD_FENCING_TOKEN: '17' };
const root = process.getuid?.() === 0;

describe.concurrent.each([
  { who: 'the user who runs the tests', isOrdinaryUser: false, user: null },
  { who: 'an ordinary user', isOrdinaryUser: true, user: null },
  ...(root
    ? [{ who: 'root, for a user of its own', isOrdinaryUser: false, user: UNPRIVILEGED }]
    : []),
])('a warm process of a warden, as $who', ({ isOrdinaryUser, user }) => {
  test('becomes a backend: it finds and removes its claim, has its log under the id, and dies at its deadlines', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone, { isOrdinaryUser });
    const { link, ear } = await warden.connect();
    const { marker, script } = taker();
    const warm = warmOf(script, { ...bash, user });
    const { claimFile } = await link.warm(warm);
    await untilUp(warden, warm.warmId);
    expect([await link.alive(), await link.list()]).toEqual([[], []]);
    expect(existsSync(claimFile)).toBe(false);

    const claim = claimStartOf(warm.warmId, { softInMs: 6_000, hardInMs: 60_000 }, variables);
    const snapshot = await link.start(claim);
    const { backendId } = claim;
    await until('it has taken it', () => outputOf(warden.stateDir, backendId).includes('taken'));

    expect(snapshot).toMatchObject({ backendId, state: 'running', softAtMs: claim.softAtMs });
    const output = outputOf(warden.stateDir, backendId).split('\n');
    expect(output.slice(0, 2)).toEqual(['up', 'mode 600']);
    expect(JSON.parse(output[2] ?? '')).toEqual(variables);
    expect(existsSync(claimFile)).toBe(false);
    expect(await link.alive()).toEqual([backendId]);
    await until('it is gone', () => ear.changes.at(-1)?.state === 'gone');
    expect(ear.changes.at(-1)).toMatchObject({ backendId, stopReason: 'key_expired' });
    expect(processesWith(marker)).toEqual([]);
    await until('its folder is removed', () => !existsSync(path.dirname(claimFile)));
  });
});

describe.concurrent('warm processes of a warden', () => {
  test('one that was killed before its claim is refused, and the backend may then be started without it', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link, ear } = await warden.connect();
    const { marker, script } = taker();
    const warm = warmOf(script, bash);
    await link.warm(warm);
    await untilUp(warden, warm.warmId);
    for (const pid of processesWith(marker)) kill(pid);
    await until('its end is told', () => ear.cooledOnes.length === 1);
    const claim = claimStartOf(warm.warmId);

    await expect(link.start(claim)).rejects.toThrow('not_warm');
    const { backendId } = claim;
    const started = await link.start(startOf('exec sleep 600', { backendId }));

    expect(ear.cooledOnes[0]).toMatchObject({ warmId: warm.warmId });
    expect(started).toMatchObject({ backendId, state: 'running' });
  });

  test('one that is killed while it is claimed is refused, or a backend whose end is reported', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link, ear } = await warden.connect();
    for (let turn = 0; turn < 10; turn += 1) {
      const { marker, script } = taker();
      const warm = warmOf(script, bash);
      await link.warm(warm);
      await untilUp(warden, warm.warmId);
      const pids = processesWith(marker);

      const claim = claimStartOf(warm.warmId);
      const claimed = link.start(claim).then(
        () => 'claimed',
        (error: unknown) => (error as Error).message,
      );
      for (const pid of pids) kill(pid);
      const outcome = await claimed;

      expect(['claimed', 'not_warm']).toContain(outcome);
      const isGone = (): boolean =>
        ear.changes.some(
          ({ backendId, state }) => backendId === claim.backendId && state === 'gone',
        );
      if (outcome === 'claimed') await until('its end is reported', isGone);
      expect(processesWith(marker)).toEqual([]);
      expect(await link.alive()).toEqual([]);
    }
  });

  test('one that was killed after its claim is a backend that has ended', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const { link, ear } = await warden.connect();
    const { marker, script } = taker();
    const warm = warmOf(script, bash);
    await link.warm(warm);
    const claim = claimStartOf(warm.warmId);
    await link.start(claim);
    const { backendId } = claim;
    await until('it has taken it', () => outputOf(warden.stateDir, backendId).includes('taken'));

    for (const pid of processesWith(marker)) kill(pid);

    await until('its end is reported', () => ear.changes.at(-1)?.state === 'gone');
    expect(ear.changes.at(-1)).toMatchObject({ backendId, state: 'gone', stopReason: null });
    expect(ear.cooledOnes).toEqual([]);
  });

  test('two claims of one process start one backend', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const warm = warmOf(taker().script, bash);
    await link.warm(warm);

    const claims = [claimStartOf(warm.warmId), claimStartOf(warm.warmId)];
    const outcomes = await Promise.allSettled(claims.map((claim) => link.start(claim)));

    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(await link.alive()).toEqual([claims[0]?.backendId]);
  });

  test('a claim whose soft deadline has passed is refused, and never written', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const warm = warmOf(taker().script, bash);
    const { claimFile } = await link.warm(warm);

    await expect(
      link.start(claimStartOf(warm.warmId, { softInMs: -1_000, hardInMs: 1_000 })),
    ).rejects.toThrow('too_late');

    expect(existsSync(claimFile)).toBe(false);
    expect(await link.cool(warm.warmId)).toBe(true);
  });

  test('a claim that cannot be written, because its program is in the way, is a backend that has failed', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link, ear } = await warden.connect();
    const warm = warmOf('mkdir -p "$LEASEHOLD_CLAIM_FILE/full" && echo up; exec sleep 600', bash);
    await link.warm(warm);
    await untilUp(warden, warm.warmId);

    await link.start(claimStartOf(warm.warmId));

    await until('its end is reported', () => ear.changes.at(-1)?.state === 'gone');
    expect(ear.changes.at(-1)).toMatchObject({ stopReason: 'internal' });
    expect(ear.changes.at(-1)?.detail).toContain('claim of a warm process could not be written');
  });

  test.for(['is killed', 'loses its agent', 'gets another agent', 'is told to end'] as const)(
    'none is left of a warden that %s, a descendant that called setsid included',
    async (what, { expect }) => {
      await using warden = await startWarden(drone);
      const { link } = await warden.connect();
      const marker = `leasehold-${randomUUID()}`;
      const sleep = `exec -a ${marker} sleep 600`;
      await link.warm(warmOf(`(setsid bash -c '${sleep}' &) ; ${sleep}`, bash));
      await until('both run', () => processesWith(marker).length >= 2);

      if (what === 'is killed') kill(warden.pid);
      else if (what === 'loses its agent') link.close();
      else if (what === 'gets another agent') await warden.connect();
      else await link.shutdown();

      await until('both are gone', () => processesWith(marker).length === 0, 5_000);
      expect(isRunning(warden.pid)).toBe(
        what === 'loses its agent' || what === 'gets another agent',
      );
    },
  );

  test('the next agent is told nothing of those of the former, and gets no claim of them', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const former = await warden.connect();
    const { marker, script } = taker();
    const warm = warmOf(script, bash);
    await former.link.warm(warm);

    const next = await warden.connect();

    await expect(next.link.start(claimStartOf(warm.warmId))).rejects.toThrow('not_warm');
    await until('it is gone', () => processesWith(marker).length === 0);
    const later = warmOf('exit 3', bash);
    await next.link.warm(later);
    await until('a later one is told', () => next.ear.cooledOnes.length > 0);
    expect(next.ear.cooledOnes).toMatchObject([{ warmId: later.warmId, exitCode: 3 }]);
  });

  test('a warden with nothing but warm processes ends when nobody needs it, and leaves no folder of them', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    await link.warm(warmOf('exec sleep 600', bash));

    link.close();

    await until('it ends', () => warden.process.exitCode === 0);
    expect(readdirSync(path.join(warden.stateDir, 'claims'))).toEqual([]);
  });

  test.runIf(root)(
    'another program cannot read a claim, and its own may not write to the folder above',
    async ({ expect }) => {
      await using warden = await startWarden(drone);
      const { link } = await warden.connect();
      const script = [
        'echo up',
        'until [ -e "$LEASEHOLD_CLAIM_FILE" ]; do sleep 0.02; done',
        'touch "$(dirname "$(dirname "$LEASEHOLD_CLAIM_FILE")")/other" || echo refused; echo done',
        'exec sleep 600',
      ].join('\n');
      const warm = warmOf(script, { ...bash, user: UNPRIVILEGED });
      const { claimFile } = await link.warm(warm);
      await untilUp(warden, warm.warmId);
      const claim = claimStartOf(warm.warmId);
      await link.start(claim);
      const output = (): string => outputOf(warden.stateDir, claim.backendId);
      await until('it has tried', () => output().includes('done'));

      const spy = startOf(`cat ${claimFile} || echo refused; echo done`, {
        ...bash,
        program: 'spy',
        user: { uid: UNPRIVILEGED.uid + 1, gid: UNPRIVILEGED.gid + 1 },
      });
      await link.start(spy);
      const spied = (): string => outputOf(warden.stateDir, spy.backendId);
      await until('the other has tried', () => spied().includes('done'));

      expect(output()).toContain('refused');
      expect(spied()).toBe('refused\ndone\n');
      expect(readFileSync(claimFile, 'utf8')).toContain('LEASEHOLD_KEY');
    },
  );
});

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended with another one.
  }
}
