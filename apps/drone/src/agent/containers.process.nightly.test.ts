import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { afterAll, beforeAll, describe, test } from 'vitest';
import {
  CALM_LADDER,
  connectReady,
  startContainerStage,
  type ContainerStage,
} from '../testing/container-stage.ts';
import { until } from '../testing/wait.ts';
import { mainProcessOf } from '../warden/processes.ts';

/** An engine, a registry and a fleet start beside other tests. */
const START_MS_MAX = 120_000;
const WAIT_MS_MAX = 40_000;

const MISSING_IMAGE = 'localhost/nowhere:1';

let stage: ContainerStage;
let taken: net.Server;
beforeAll(async () => {
  stage = await startContainerStage({ ladder: CALM_LADDER });
  taken = net.createServer();
  await new Promise<void>((resolve) => {
    taken.listen(0, '127.0.0.1', resolve);
  });
  const { program } = stage;
  const shell = (script: string): Record<string, unknown> =>
    program({ command: '/bin/sh', args: ['-c', script], readiness: { type: 'none' } });
  await stage.startDrone({
    room: program(),
    bridged: program({ network: 'bridge', containerPort: 8_080, port: farPort() }),
    limited: program({
      cpus: 0.5,
      pids: 32,
      user: '1000:1000',
      readOnly: true,
      labels: { team: 'a' },
    }),
    greedy: shell('x=a; while :; do x=$x$x$x$x; done'),
    mistyped: program({ command: '/bin/nowhere', init: false }),
    missing: program({ image: MISSING_IMAGE }),
    taken: program({ port: (taken.address() as net.AddressInfo).port }),
  });
}, START_MS_MAX);
afterAll(async () => {
  taken.close();
  await stage[Symbol.asyncDispose]();
});

/** The rules of the machine's packet filter that lead connections at a port to a container. */
function packetRules(port: string): string[] {
  const rules = execFileSync('iptables-save', ['-t', 'nat'], { encoding: 'utf8' }).split('\n');
  return rules.filter((rule) => new RegExp(`--dports? ${port}\\b`, 'u').test(rule));
}

/**
 * Apart from the ports of every stage. An engine that is removed with its containers may leave the rule for a published
 * port, which would lead connections away from the next container at that port.
 */
function farPort(): number {
  return 20_000 + Math.floor(Math.random() * 10_000);
}

type Detail = Awaited<
  ReturnType<ReturnType<ContainerStage['fleet']['api']>['backends']['get']['query']>
>;

/** A backend once it is terminated, with the newest detail of its states. */
async function ended(backendId: string): Promise<{ backend: Detail; detail: string }> {
  const api = stage.fleet.api();
  let backend = await api.backends.get.query({ backendId });
  await until(
    'it is terminated',
    async () => {
      backend = await api.backends.get.query({ backendId });
      return backend.status === 'terminated';
    },
    WAIT_MS_MAX,
  );
  return { backend, detail: backend.states.at(-1)?.detail ?? '' };
}

async function granted(program: string): Promise<string> {
  const api = stage.fleet.api();
  const answer = await api.keys.connect.mutate({ key: { name: program }, spawn: { program } });
  return answer.backendId;
}

describe.concurrent('a backend that is a container', () => {
  test('is started for a key, serves requests, writes its log, and stops when it is asked to', async ({
    expect,
  }) => {
    const { fleet } = stage;
    const { backendId, fencingToken, address } = await connectReady(stage, { program: 'room' });

    const answer = await fetch(`http://${String(address)}/`);

    expect(await answer.json()).toEqual({ key: 'room', fencingToken, backendId });
    const [container] = await stage.containersOf(backendId);
    expect(container?.Labels).toMatchObject({
      'leasehold.drone': 'drone-1',
      'leasehold.program': 'room',
      'leasehold.key': 'room',
      'leasehold.backend': backendId,
      'leasehold.fencing-token': fencingToken,
    });
    await fleet.api().backends.terminate.mutate({ backendId, mode: 'soft' });
    const { backend } = await ended(backendId);
    expect(backend).toMatchObject({ reason: 'external', exitCode: 7, image: stage.engine.image });
    expect(stage.written(backendId).map(({ kind }) => kind)).toContain('stop');
    expect(stage.log(backendId, 'stderr')).toBe('to the standard error\n');
    await until('it is removed', async () => (await stage.containersOf(backendId)).length === 0);
  });

  test('has a network of its own with one published port, if it is configured so, and leaves no rule for the port', async ({
    expect,
  }) => {
    const name = 'bridged';
    const { address, backendId } = await connectReady(stage, { name, program: name });

    const answer = await fetch(`http://${String(address)}/`);

    expect(await answer.json()).toMatchObject({ key: name, backendId });
    expect(address).not.toContain(':8080');
    const port = String(address?.split(':').at(-1));
    expect(packetRules(port)).not.toEqual([]);
    await stage.fleet.api().backends.terminate.mutate({ backendId, mode: 'hard' });
    await until('it is removed', async () => (await stage.containersOf(backendId)).length === 0);
    expect(packetRules(port)).toEqual([]);
  });

  test('has limits of memory, processors and processes, no capabilities, and cannot gain privileges', async ({
    expect,
  }) => {
    const name = 'limited';
    const { backendId } = await connectReady(stage, { name, program: name });

    const containerId = await stage.containerIdOf(backendId);
    const main = mainProcessOf(containerId);
    const status = readFileSync(`/proc/${String(main?.pid)}/status`, 'utf8');
    expect(status).toMatch(/^CapEff:\s0+$/mu);
    expect(status).toMatch(/^CapBnd:\s0+$/mu);
    expect(status).toMatch(/^NoNewPrivs:\s1$/mu);
    expect(status).toMatch(/^Uid:\s1000\s/mu);
    expect(limitOf(main?.cgroup ?? '', 'memory')).toBe(64 * 1_024 * 1_024);
    expect(limitOf(main?.cgroup ?? '', 'pids')).toBe(32);
    const found = (await stage.engine.get(`/v1.41/containers/${containerId}/json`)) as {
      Config: { Labels: Record<string, string> };
      HostConfig: { NanoCpus: number; ReadonlyRootfs: boolean };
    };
    expect(found.HostConfig).toMatchObject({ NanoCpus: 500_000_000, ReadonlyRootfs: true });
    expect(found.Config.Labels['team']).toBe('a');
  });

  test('that needs more memory than its limit is killed by the kernel, and its end has the reason', async ({
    expect,
  }) => {
    const { backend, detail } = await ended(await granted('greedy'));

    expect(backend).toMatchObject({ reason: 'exited', exitCode: 137 });
    expect(detail).toMatch(/its limit of (?:memory is )?64m/u);
  });

  test.for<[string, string, RegExp]>([
    ['whose command does not exist', 'mistyped', /nowhere/u],
    ['whose image is not there', 'missing', /localhost\/nowhere:1 is not on this machine/u],
    ['whose port is taken', 'taken', /port \d+ is taken/u],
  ])(
    '%s is not started, and its end has the reason',
    async ([_what, program, reason], { expect }) => {
      const { backend, detail } = await ended(await granted(program));

      expect(backend.reason).toBe('internal');
      expect(detail).toMatch(reason);
      // It may be removed after its end is reported.
      const containers = () => stage.containersOf(backend.backendId);
      await until('no container is left', async () => (await containers()).length === 0);
    },
  );
});

/** Of a control group, of either version. */
function limitOf(cgroup: string, kind: 'memory' | 'pids'): number {
  const first = new RegExp(`^\\d+:${kind}:(.*)$`, 'mu').exec(cgroup)?.[1];
  const file =
    first === undefined
      ? `/sys/fs/cgroup${/^0::(.*)$/mu.exec(cgroup)?.[1] ?? ''}/${kind}.max`
      : `/sys/fs/cgroup/${kind}${first}/${kind === 'memory' ? 'memory.limit_in_bytes' : 'pids.max'}`;
  return Number(readFileSync(file, 'utf8'));
}
