/**
 * What the engine is asked to make for a backend. By default a container has no capabilities, gains no
 * privileges, and has limits of memory, processors and processes.
 */
import { createHash } from 'node:crypto';
import type { ContainerConfig } from '../../config.ts';
import { bytesOf } from '@leasehold/api/drone-file';
import { GATE_PLACE, gateOf } from '../../warden/container/gate.ts';
import type { ContainerRequest } from '../../warden/link/protocol.ts';
import { leaseholdEnv } from '../backend/backend-env.ts';
import type { WorkOrder } from '../backend/run-types.ts';

/** Labels by which people and programs find the containers of Leasehold. */
export const LABELS = {
  installation: 'leasehold.installation',
  drone: 'leasehold.drone',
  program: 'leasehold.program',
  key: 'leasehold.key',
  keyId: 'leasehold.key-id',
  backend: 'leasehold.backend',
  fencingToken: 'leasehold.fencing-token',
} as const;

const NANO = 1_000_000_000;
const TEMPORARY = '/tmp';

/** What is the same for all containers of a drone. */
export interface ContainerPlace {
  readonly droneId: string;
  readonly stateDir: string;
  readonly socket: string;
  /** The address at which published ports listen. */
  readonly host: string;
}

/** One state folder is one installation's: drones of the same id with other folders are other drones. */
export function installationOf(stateDir: string): string {
  return createHash('sha256').update(`leasehold.state\0${stateDir}`).digest('hex').slice(0, 16);
}

export function containerRequest(
  program: ContainerConfig,
  imageId: string,
  { order, place }: { order: WorkOrder; place: ContainerPlace },
): ContainerRequest {
  const { identity, plan, keyId } = order;
  const args = [...program.args, ...plan.args];
  return {
    engine: place.socket,
    name: `leasehold-${identity.backendId}`,
    keyId,
    memory: program.memory,
    create: {
      Image: imageId,
      ...(program.command === undefined ? {} : { Entrypoint: [program.command] }),
      ...(args.length === 0 ? {} : { Cmd: args }),
      ...(program.cwd === undefined ? {} : { WorkingDir: program.cwd }),
      ...(program.user === undefined ? {} : { User: program.user }),
      Env: environmentOf(program, order),
      Labels: labelsOf(program, order, place),
      StopSignal: program.stopSignal,
      ...(program.network === 'bridge'
        ? { ExposedPorts: { [portInside(program, order)]: {} } }
        : {}),
      HostConfig: {
        ...networkOf(program, order, place),
        ...limitsOf(program),
        CapDrop: ['ALL'],
        CapAdd: program.capabilities,
        SecurityOpt: ['no-new-privileges'],
        Privileged: false,
        ReadonlyRootfs: program.readOnly,
        Tmpfs: program.readOnly ? { [TEMPORARY]: 'rw,nosuid,nodev,mode=1777' } : {},
        Init: program.init,
        // Only the warden decides whether a backend runs.
        RestartPolicy: { Name: 'no' },
        AutoRemove: false,
        // The warden collects the output, and bounds it.
        LogConfig: { Type: 'none' },
        Mounts: [
          {
            Type: 'bind',
            Source: gateOf(place.stateDir, identity.backendId),
            Target: GATE_PLACE,
            ReadOnly: true,
          },
        ],
      },
    },
  };
}

function environmentOf(program: ContainerConfig, order: WorkOrder): string[] {
  const { identity, plan, keyId, port } = order;
  const inside = program.network === 'bridge' ? (program.containerPort ?? port) : port;
  const { fencingToken, backendId } = identity;
  const variables = {
    ...program.env,
    ...plan.env,
    ...leaseholdEnv({
      ...{ keyName: plan.key.name, keyId, fencingToken, backendId },
      ...{ port: inside, portEnv: program.portEnv },
    }),
  };
  return Object.entries(variables).map(([name, value]) => `${name}=${value}`);
}

function labelsOf(
  program: ContainerConfig,
  { identity, plan, keyId }: WorkOrder,
  place: ContainerPlace,
): Record<string, string> {
  return {
    ...program.labels,
    [LABELS.installation]: installationOf(place.stateDir),
    [LABELS.drone]: place.droneId,
    [LABELS.program]: identity.programName,
    [LABELS.key]: plan.key.name,
    [LABELS.keyId]: keyId,
    [LABELS.backend]: identity.backendId,
    [LABELS.fencingToken]: identity.fencingToken,
  };
}

function portInside({ containerPort }: ContainerConfig, { port }: WorkOrder): string {
  return `${String(containerPort ?? port)}/tcp`;
}

function networkOf(
  program: ContainerConfig,
  order: WorkOrder,
  { host }: ContainerPlace,
): Record<string, unknown> {
  if (program.network === 'host') return { NetworkMode: 'host' };
  return {
    NetworkMode: 'bridge',
    PortBindings: {
      [portInside(program, order)]: [{ HostIp: host, HostPort: String(order.port) }],
    },
  };
}

function limitsOf({ memory, cpus, pids, ulimits }: ContainerConfig): Record<string, unknown> {
  const bytes = bytesOf(memory);
  return {
    Memory: bytes,
    // With the memory's own size: nothing is swapped out beyond it.
    MemorySwap: bytes,
    NanoCpus: Math.round(cpus * NANO),
    PidsLimit: pids,
    Ulimits: Object.entries(ulimits).map(([Name, limit]) =>
      typeof limit === 'number'
        ? { Name, Soft: limit, Hard: limit }
        : { Name, Soft: limit.soft, Hard: limit.hard },
    ),
  };
}
