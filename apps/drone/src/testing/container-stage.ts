/** A fleet whose drone runs containers on a real engine, and what the containers wrote. */
import { readdirSync } from 'node:fs';
import path from 'node:path';
import type { Ladder } from '@leasehold/keys-core';
import {
  startPodman,
  TEST_ULIMITS,
  waitUntil,
  type DroneOptions,
  type PodmanOptions,
  type StageDrone,
  type TestPodman,
} from '@leasehold/testing';
import { expect } from 'vitest';
import { processesOf } from '../warden/processes.ts';
import { outputOf } from './backend-output.ts';
import { Fleet } from './fleet-fixture.ts';
import { connect, type Connected, type ConnectOptions } from './fleet-steps.ts';

/**
 * Serves what it was told over HTTP, and writes when it starts, that it lives, and that it is asked to
 * stop, with readings of the boot clock.
 */
const SCRIPT = `
say() { read -r now _ < /proc/uptime; echo "$1 $LEASEHOLD_BACKEND_ID $LEASEHOLD_FENCING_TOKEN $now"; }
say start
echo "to the standard error" >&2
mkdir -p /tmp/www
printf '{"key":"%s","fencingToken":"%s","backendId":"%s"}' \\
  "$LEASEHOLD_KEY" "$LEASEHOLD_FENCING_TOKEN" "$LEASEHOLD_BACKEND_ID" > /tmp/www/index.html
httpd -p "$PORT" -h /tmp/www
trap 'say stop; exit 7' TERM
[ -z "$STUBBORN" ] || trap 'say stop' TERM
while :; do say beat; sleep 0.05; done
`;

interface WrittenLine {
  readonly kind: string;
  readonly fencingToken: string;
  readonly atMs: number;
}

interface ListedContainer {
  readonly Id: string;
  readonly State: string;
  readonly Labels: Readonly<Record<string, string>>;
}

export interface ContainerStage extends AsyncDisposable {
  readonly fleet: Fleet;
  readonly engine: TestPodman;
  /** A program of the image, which listens on the machine's network. */
  readonly program: (more?: Readonly<Record<string, unknown>>) => Record<string, unknown>;
  startDrone(programs: DroneOptions['programs'], more?: Partial<DroneOptions>): Promise<StageDrone>;
  /** What a backend has written to its standard output. */
  written(backendId: string): WrittenLine[];
  log(backendId: string, stream: 'stdout' | 'stderr'): string;
  /** The containers of a backend, running or not. */
  containersOf(backendId: string): Promise<ListedContainer[]>;
  /** The id of the container of a backend. */
  containerIdOf(backendId: string): Promise<string>;
}

const READY_MS_MAX = 40_000;

/** Connects until the backend is ready: on a busy machine that may take longer than one call waits. */
export function connectReady(
  { fleet }: Pick<ContainerStage, 'fleet'>,
  options: ConnectOptions = {},
): Promise<Connected> {
  return waitUntil(
    async () => {
      const connected = await connect(fleet, options);
      return connected.status === 'ready' ? connected : undefined;
    },
    { what: 'a backend that is ready', timeoutMs: READY_MS_MAX },
  );
}

/** Whether any process of a container is left. */
export function isAlive(containerId: string): boolean {
  return processesOf(containerId).length > 0;
}

/** The first wrote its last word before the second wrote its first. */
export function expectInTurn(first: readonly WrittenLine[], second: readonly WrittenLine[]): void {
  expect(first.length, 'lines of the first').toBeGreaterThan(0);
  expect(second.length, 'lines of the second').toBeGreaterThan(0);
  expect(first.at(-1)?.atMs).toBeLessThanOrEqual(second[0]?.atMs ?? 0);
  expect(BigInt(second[0]?.fencingToken ?? 0)).toBeGreaterThan(BigInt(first[0]?.fencingToken ?? 0));
}

/** For tests in which no deadline matters: a busy machine starts a container within it. */
export const CALM_LADDER = {
  renewAfterMs: 3_000,
  softAfterMs: 25_000,
  hardAfterMs: 27_000,
  ttlMs: 32_000,
};

/** An engine whose image is {@link SCRIPT}. */
export function startTestEngine(options: Partial<PodmanOptions> = {}): Promise<TestPodman> {
  return startPodman({ script: SCRIPT, ...options });
}

/** On an engine that it shares with others, or on one of its own, which ends with it. */
export async function startContainerStage(
  options: { ladder?: Ladder; engine?: TestPodman } = {},
): Promise<ContainerStage> {
  const engine = options.engine ?? (await startTestEngine());
  const fleet = await Fleet.open({ ladder: options.ladder });
  /** Of any drone of the fleet. */
  const log: ContainerStage['log'] = (backendId, stream) =>
    readdirSync(fleet.home)
      .map((folder) => outputOf(path.join(fleet.home, folder), backendId, stream))
      .join('');
  const containersOf = async (backendId: string): Promise<ListedContainer[]> => {
    const filters = JSON.stringify({ label: [`leasehold.backend=${backendId}`] });
    const apiPath = `/v1.41/containers/json?all=true&filters=${encodeURIComponent(filters)}`;
    // The API's answer; what a test expects of it, it checks.
    return (await engine.get(apiPath)) as ListedContainer[];
  };
  return {
    fleet,
    engine,
    program: (more) => ({
      image: engine.image,
      pull: 'never',
      network: 'host',
      memory: '64m',
      pids: 64,
      ulimits: TEST_ULIMITS,
      readiness: { type: 'http' },
      ...more,
    }),
    startDrone: (programs, more = {}) =>
      fleet.startDrone({
        ...more,
        programs,
        config: { engine: { socket: engine.socket }, ...more.config },
      }),
    written: (backendId) =>
      log(backendId, 'stdout')
        .split('\n')
        .filter((line) => line.split(' ').length === 4)
        .map((line) => {
          const [kind = '', , fencingToken = '', seconds = ''] = line.split(' ');
          return { kind, fencingToken, atMs: Number(seconds) * 1_000 };
        }),
    log,
    containersOf,
    containerIdOf: async (backendId) => {
      const [container] = await containersOf(backendId);
      if (container === undefined) throw new Error(`${backendId} has no container`);
      return container.Id;
    },
    [Symbol.asyncDispose]: async () => {
      await fleet[Symbol.asyncDispose]();
      if (options.engine === undefined) await engine[Symbol.asyncDispose]();
    },
  };
}
