import { randomUUID } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { processesWith, waitUntil } from '@leasehold/testing';
import { afterAll, beforeAll, describe, test } from 'vitest';
import type { SocketWardenLink } from '../agent/warden-link.ts';
import { readWardenRecord } from '../records.ts';
import { outputOf } from '../testing/backend-output.ts';
import { testedDrone, type TestedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import { startOf, startWarden, type Ear, type WardenFixture } from '../testing/warden-fixture.ts';

let drone: TestedDrone;
/** By whose user they run: for tests that neither end a warden nor take its command. */
const shared = new Map<boolean, { warden: WardenFixture; link: SocketWardenLink; ear: Ear }>();
beforeAll(async () => {
  drone = testedDrone();
  for (const isOrdinaryUser of [false, true]) {
    const warden = await startWarden(drone, { isOrdinaryUser });
    shared.set(isOrdinaryUser, { warden, ...(await warden.connect()) });
  }
});
afterAll(async () => {
  for (const { warden } of shared.values()) await warden[Symbol.asyncDispose]();
  drone[Symbol.dispose]();
});

function sharedWarden({ isOrdinaryUser } = { isOrdinaryUser: false }) {
  const found = shared.get(isOrdinaryUser);
  if (found === undefined) throw new Error('the warden was not started');
  return found;
}

/** Sleeps without a handler, recognisable by its own command line. */
function marked(): { marker: string; sleep: string } {
  const marker = `leasehold-${randomUUID()}`;
  return { marker, sleep: `exec -a ${marker} sleep 600` };
}

const bash = { command: '/bin/bash' };

type Of = Pick<ReturnType<typeof startOf>, 'backendId'>;

function untilGone(ear: Ear, { backendId }: Of): Promise<Ear['changes'][number]> {
  const isEnd = (change: Ear['changes'][number]): boolean =>
    change.backendId === backendId && change.state === 'gone';
  return waitUntil(() => ear.changes.find(isEnd), { what: 'the end of the backend' });
}

/** What the warden has of a backend. */
async function listed(link: SocketWardenLink, { backendId }: Of): Promise<Ear['changes']> {
  return (await link.list()).filter((one) => one.backendId === backendId);
}

describe.concurrent.each([
  { who: 'root or the user who runs the tests', isOrdinaryUser: false },
  { who: 'an ordinary user', isOrdinaryUser: true },
])('warden, as $who', ({ isOrdinaryUser }) => {
  test('C63 F4c when it is killed its backends die with it, a descendant that called setsid too', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone, { isOrdinaryUser });
    const { link } = await warden.connect();
    const { marker } = marked();
    await link.start(
      startOf(
        `(setsid bash -c 'exec -a ${marker} sleep 600' &) ; exec -a ${marker} sleep 600`,
        bash,
      ),
    );
    await until(
      'both processes run',
      () => processesWith(marker).filter((pid) => nameOf(pid) === 'sleep').length === 2,
    );
    expect(link.identity.isolation.pidNamespace).toBe(true);

    process.kill(warden.pid, 'SIGKILL');

    await until('both are dead', () => processesWith(marker).length === 0);
    expect(processesWith(marker)).toEqual([]);
  });

  test('C63 a program without a handler dies at soft, although it is in a PID namespace', async ({
    expect,
  }) => {
    const { link, ear } = sharedWarden({ isOrdinaryUser });
    const { marker, sleep } = marked();
    const request = startOf(sleep, { ...bash, softInMs: 3_000, hardInMs: 60_000 });

    await link.start(request);
    const last = await untilGone(ear, request);

    expect(last).toMatchObject({ stopReason: 'key_expired', isKilled: false, exitCode: 143 });
    expect(processesWith(marker)).toEqual([]);
  });

  test('a program that ignores its stop signal dies at hard', async ({ expect }) => {
    const { link, ear } = sharedWarden({ isOrdinaryUser });
    const { marker } = marked();
    const request = startOf(`trap '' TERM; : ${marker}; while :; do sleep 0.1; done`, {
      softInMs: 5_000,
      hardInMs: 5_600,
      // A leash that is needed ends the warden of the other tests too; `leash.process.test.ts` tests it.
      leashMs: 60_000,
    });

    const started = await link.start(request);
    const last = await untilGone(ear, request);

    expect(last).toMatchObject({ stopReason: 'key_expired', isKilled: true });
    expect(os.uptime() * 1_000).toBeGreaterThanOrEqual(started.hardAtMs);
    expect(processesWith(marker)).toEqual([]);
  });
});

describe.concurrent('warden', () => {
  test('F4b F2 keeps the deadlines when the agent is gone', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const { link } = await warden.connect();
    const { marker, sleep } = marked();
    await link.start(startOf(sleep, { ...bash, softInMs: 3_000, hardInMs: 4_000 }));

    link.close();

    await waitUntil(() => processesWith(marker).length === 0, {
      what: 'the stop of the backend',
      withinMs: 10_000,
      pollMs: 100,
    });
    const { link: next } = await warden.connect();
    await until('the warden has seen it', async () => (await next.list())[0]?.state === 'gone');
    expect(await next.list()).toMatchObject([{ state: 'gone', stopReason: 'key_expired' }]);
  });

  test('obeys the newest agent, and tells the former that it is superseded', async ({ expect }) => {
    await using warden = await startWarden(drone);
    const former = await warden.connect();
    const next = await warden.connect();

    await until('the former is told', () => former.ear.isSuperseded);

    await expect(former.link.list()).rejects.toThrow(/gone|superseded/u);
    expect(await next.link.list()).toEqual([]);
    expect(next.link.identity).toEqual(former.link.identity);
  });

  test('C49 starts a backend id at most once in its life, even when the first has ended', async ({
    expect,
  }) => {
    const { link, ear } = sharedWarden();
    const request = startOf('exit 0');
    await link.start(request);
    await untilGone(ear, request);
    await link.forget(request.backendId);

    await expect(link.start(request)).rejects.toThrow('started_before');
    expect(await listed(link, request)).toEqual([]);
  });

  test('starts nothing when soft has passed', async ({ expect }) => {
    const { link } = sharedWarden();
    const { marker, sleep } = marked();

    await expect(
      link.start(startOf(sleep, { ...bash, softInMs: -1_000, hardInMs: 1_000 })),
    ).rejects.toThrow('too_late');

    expect(processesWith(marker)).toEqual([]);
  });

  test.for(['SIGTERM', 'SIGINT', 'SIGQUIT', 'SIGUSR1'])(
    'stops a program by its own stop signal: %s',
    async (stopSignal, { expect }) => {
      const { warden, link, ear } = sharedWarden();
      const request = startOf(
        `trap 'exit 7' ${stopSignal.slice(3)}; echo up; while :; do sleep 0.05; done`,
        { stopSignal },
      );
      await link.start(request);
      await until('the program runs', () =>
        outputOf(warden.stateDir, request.backendId).includes('up'),
      );

      await link.stop({
        backendId: request.backendId,
        mode: 'soft',
        reason: 'external',
        isKeyLost: false,
      });

      expect(await untilGone(ear, request)).toMatchObject({
        exitCode: 7,
        stopReason: 'external',
        isKilled: false,
      });
    },
  );

  test('kills a program that outlives its grace, and a repeated stop postpones nothing', async ({
    expect,
  }) => {
    const { warden, link, ear } = sharedWarden();
    const stubborn = `trap '' TERM; echo up; while :; do sleep 0.05; done`;
    const aRequest = (): ReturnType<typeof startOf> => startOf(stubborn, { stopGraceMs: 1_000 });
    const [first, second] = [aRequest(), aRequest()] as const;
    const started = async (request: typeof first): Promise<void> => {
      await link.start(request);
      await until('it runs', () => outputOf(warden.stateDir, request.backendId).includes('up'));
    };
    const stop = { mode: 'soft', reason: 'external', isKeyLost: false } as const;
    await started(first);

    await link.stop({ backendId: first.backendId, ...stop });
    await started(second);
    // With a new grace from its second stop, the first program would end after the other one.
    await link.stop({ backendId: second.backendId, ...stop });
    await link.stop({ backendId: first.backendId, ...stop });
    const ends = await Promise.all([first, second].map((one) => untilGone(ear, one)));

    expect(ends).toMatchObject([
      { isKilled: true, stopReason: 'external' },
      { isKilled: true, stopReason: 'external' },
    ]);
    const [earlier, later] = ends.map((end) => ear.changes.indexOf(end));
    expect(earlier).toBeLessThan(later ?? 0);
  });

  test('reports the exit code of a program that ends by itself, and keeps it until it is forgotten', async ({
    expect,
  }) => {
    await using warden = await startWarden(drone);
    const { link, ear } = await warden.connect();
    const request = startOf('echo to-out; echo to-err >&2; exit 42', {
      backendId: 'b-code',
      meta: { note: 'kept' },
    });
    await link.start(request);

    expect(await untilGone(ear, request)).toMatchObject({
      exitCode: 42,
      stopReason: null,
      isKilled: false,
    });

    const next = await warden.connect();
    expect(await next.link.list()).toMatchObject([
      { backendId: 'b-code', exitCode: 42, meta: { note: 'kept' } },
    ]);
    await next.link.forget('b-code');
    expect(await next.link.list()).toEqual([]);
    expect(outputOf(warden.stateDir, 'b-code')).toBe('to-out\n');
    expect(outputOf(warden.stateDir, 'b-code', 'stderr')).toBe('to-err\n');
  });

  test('a backend is gone only with its descendants: nothing outlives its main process', async ({
    expect,
  }) => {
    const { link, ear } = sharedWarden();
    const { marker } = marked();
    const script = `(setsid bash -c 'exec -a ${marker} sleep 600' &) ; sleep 0.3; exit 3`;
    const request = startOf(script, bash);

    await link.start(request);

    expect(await untilGone(ear, request)).toMatchObject({ exitCode: 3 });
    expect(processesWith(marker)).toEqual([]);
  });

  test('a start in a folder that does not exist fails, and leaves nothing behind', async ({
    expect,
  }) => {
    const { link } = sharedWarden();
    const request = startOf('exit 0', { cwd: '/no/such/folder' });

    await expect(link.start(request)).rejects.toThrow('start_failed');

    expect(await listed(link, request)).toEqual([]);
  });

  test('its socket and its files are for its owner alone', ({ expect }) => {
    const { warden } = sharedWarden();
    const record = readWardenRecord(warden.stateDir);

    expect(statSync(record?.socketPath ?? '').mode & 0o777).toBe(0o600);
    expect(statSync(path.join(warden.stateDir, 'warden.json')).mode & 0o777).toBe(0o600);
    expect(statSync(path.join(warden.stateDir, 'logs')).mode & 0o777).toBe(0o700);
  });
});

function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${String(pid)}/comm`, 'utf8').trim();
  } catch {
    return '';
  }
}
