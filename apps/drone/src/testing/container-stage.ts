/** A fleet whose drone runs containers on a real engine, and what the containers wrote. */
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Ladder } from '@leasehold/keys-core';
import { startPodman, TEST_ULIMITS, type PodmanOptions, type TestPodman } from '@leasehold/testing';
import { startFleet, type DroneOptions, type Fleet, type Started } from './fleet-fixture.ts';
import { processesOf } from '../warden/container/container-processes.ts';

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

export interface WrittenLine {
  readonly kind: string;
  readonly fencingToken: string;
  readonly atMs: number;
}

export interface ListedContainer {
  readonly Id: string;
  readonly State: string;
  readonly Labels: Readonly<Record<string, string>>;
}

export interface ContainerStage extends AsyncDisposable {
  readonly fleet: Fleet;
  readonly engine: TestPodman;
  /** A program of the image, which listens on the machine's network. */
  program(more?: Readonly<Record<string, unknown>>): Record<string, unknown>;
  startDrone(programs: DroneOptions['programs'], more?: DroneOptions): Started;
  /** What a backend has written to its standard output. */
  written(backendId: string): WrittenLine[];
  log(backendId: string, stream: 'stdout' | 'stderr'): string;
  /** The containers of a backend, running or not. */
  containersOf(backendId: string): Promise<ListedContainer[]>;
  /** Whether any process of a backend's containers is left. */
  isAlive(containerId: string): boolean;
}

export async function startContainerStage(
  options: { ladder?: Ladder } & Partial<PodmanOptions> = {},
): Promise<ContainerStage> {
  const { ladder, ...ofPodman } = options;
  const engine = await startPodman({ script: SCRIPT, ...ofPodman });
  const fleet = await startFleet(ladder === undefined ? {} : { ladder });
  const log = (backendId: string, stream: string): string => {
    const file = path.join(fleet.stateDir, 'logs', `${backendId}.${stream}.log`);
    return existsSync(file) ? readFileSync(file, 'utf8') : '';
  };
  return {
    fleet,
    engine,
    program: (more = {}) => ({
      image: engine.image,
      pull: 'never',
      network: 'host',
      memory: '64m',
      pids: 64,
      ulimits: TEST_ULIMITS,
      readiness: { type: 'http' },
      ...more,
    }),
    startDrone: (programs = {}, more = {}) =>
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
    containersOf: async (backendId) => {
      const filters = encodeURIComponent(
        JSON.stringify({ label: [`leasehold.backend=${backendId}`] }),
      );
      // The API's answer; what a test expects of it, it checks.
      return (await engine.get(
        `/v1.41/containers/json?all=true&filters=${filters}`,
      )) as ListedContainer[];
    },
    isAlive: (containerId) => processesOf(containerId).length > 0,
    [Symbol.asyncDispose]: async () => {
      await fleet[Symbol.asyncDispose]();
      await engine[Symbol.asyncDispose]();
    },
  };
}
