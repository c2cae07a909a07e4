/** The faults of a run: F1 to F20b of `docs/cases.json`. */
import type { Reach } from '../history.ts';
import type { World } from '../world/world.ts';
import * as databases from './inflict/databases.ts';
import * as datacenters from './inflict/datacenters.ts';
import * as networks from './inflict/networks.ts';
import * as poolers from './inflict/poolers.ts';
import * as processes from './inflict/processes.ts';
import * as restores from './inflict/restores.ts';

export interface FaultKind {
  /** As in `docs/cases.json`. */
  readonly name: string;
  readonly what: string;
  /** What it may happen to: one of these. */
  readonly targets: readonly string[];
  readonly forMs: readonly [min: number, max: number];
  readonly reaches: readonly Reach[];
  /** For how long it may be felt after its end. */
  readonly recoveryMsMax: number;
  /** Two faults that share a group never overlap, and two of one target neither. */
  readonly groups?: readonly ('database' | 'controllers' | 'datacenters')[];
  readonly needsPooler?: true;
  /** Makes it happen; fulfilled when it is over. */
  readonly inflict: (world: World, target: string, forMs: number) => Promise<void>;
}

const CONTROLLERS = ['c0', 'c1'] as const;
const DRONES = ['d0', 'd1', 'd2'] as const;
const CALLERS = ['caller-0', 'caller-1', 'holder-0', 'holder-1'] as const;
const SERVICES = [...CALLERS, 'updater-0', 'updater-1'] as const;
const DATABASE = ['database'] as const;
const POOLER = ['pooler'] as const;
const DATACENTERS = ['dc1', 'dc2', 'dc3'] as const;

/** A service is answered again: with the time that its transport takes to give up a dead connection. */
const SERVICE_MS_MAX = 10_000;
/** The rest of a ladder, a new backend, and a second. */
const KEY_MS_MAX = 10_000;
/** A controller's jobs: the reaper, the outbox, the event stream. */
const JOBS_MS_MAX = 20_000;
/** The longest TTL of a run, and a second: for so long an expiry may be in doubt. */
const DOUBT_MS = 7_000;

export const KINDS: readonly FaultKind[] = [
  {
    name: 'F1',
    what: 'a service is paused past its TTL',
    targets: SERVICES,
    forMs: [1_600, 4_000],
    reaches: ['leases'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: processes.pauseWorker,
  },
  {
    name: 'F2',
    what: 'the event loop of a service is blocked',
    targets: SERVICES,
    forMs: [2_500, 2_500],
    reaches: ['leases'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: processes.stallWorker,
  },
  {
    name: 'F3',
    what: 'a controller is killed, its replies not delivered',
    targets: CONTROLLERS,
    groups: ['controllers'],
    forMs: [1_000, 4_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: processes.killController,
  },
  {
    name: 'F4',
    what: 'a service is killed',
    targets: SERVICES,
    forMs: [500, 3_000],
    reaches: ['leases'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: processes.killWorker,
  },
  {
    name: 'F4b',
    what: 'an agent is killed',
    targets: DRONES,
    forMs: [500, 8_000],
    reaches: ['keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: processes.killAgent,
  },
  {
    name: 'F4c',
    what: 'a warden is killed',
    targets: DRONES,
    forMs: [0, 0],
    reaches: ['keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: processes.killWarden,
  },
  {
    name: 'F7',
    what: 'the database clock steps back',
    targets: DATABASE,
    groups: ['database'],
    forMs: [DOUBT_MS, DOUBT_MS],
    reaches: ['leases', 'keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: databases.stepClockBack,
  },
  {
    name: 'F7b',
    what: 'the database clock steps forward',
    targets: DATABASE,
    groups: ['database'],
    forMs: [DOUBT_MS, DOUBT_MS],
    reaches: ['leases', 'keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: databases.stepClockForward,
  },
  {
    name: 'F8',
    what: 'a drone is suspended as a whole',
    targets: DRONES,
    forMs: [7_000, 9_000],
    reaches: ['keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: processes.suspendDrone,
  },
  {
    name: 'F9',
    what: 'an agent and the controllers are cut off, both ways',
    targets: DRONES,
    forMs: [1_000, 8_000],
    reaches: ['keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: networks.cutControllers,
  },
  {
    name: 'F9',
    what: 'an agent and the controllers are cut off, one way',
    targets: DRONES,
    forMs: [1_000, 8_000],
    reaches: ['keys'],
    recoveryMsMax: KEY_MS_MAX,
    inflict: networks.cutOneWay,
  },
  {
    name: 'F9',
    what: 'a service and the controllers are cut off',
    targets: SERVICES,
    forMs: [1_000, 5_000],
    reaches: ['leases'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: networks.cutControllers,
  },
  {
    name: 'F9',
    what: 'a controller and its database are cut off',
    targets: CONTROLLERS,
    groups: ['controllers'],
    forMs: [1_000, 5_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: networks.cutDatabase,
  },
  {
    name: 'F10',
    what: 'every line delays, each by a time of its own',
    targets: ['network'],
    forMs: [3_000, 8_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: networks.delayAll,
  },
  {
    name: 'F11',
    what: 'the table of grants is locked',
    targets: DATABASE,
    groups: ['database'],
    forMs: [1_000, 4_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: databases.lockLeases,
  },
  {
    name: 'F11',
    what: 'the database is slow',
    targets: DATABASE,
    groups: ['database'],
    forMs: [3_000, 6_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: networks.slowDatabase,
  },
  {
    name: 'F12',
    what: 'the database is killed',
    targets: DATABASE,
    groups: ['database'],
    forMs: [300, 3_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: databases.killDatabase,
  },
  {
    name: 'F13',
    what: 'the pooler of a controller is killed',
    targets: POOLER,
    groups: ['controllers'],
    needsPooler: true,
    forMs: [500, 3_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: poolers.killPooler,
  },
  {
    name: 'F13',
    what: 'the pooler of a controller loses its sessions',
    targets: POOLER,
    groups: ['controllers'],
    needsPooler: true,
    forMs: [500, 3_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: poolers.refuseSessions,
  },
  {
    name: 'F14',
    what: 'notifications are lost',
    targets: DATABASE,
    forMs: [3_000, 6_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: databases.loseNotifications,
  },
  {
    name: 'F15',
    what: 'hundreds of leases expire together',
    targets: ['c0', 'c1'],
    forMs: [3_000, 3_000],
    reaches: ['leases', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: databases.expireTogether,
  },
  {
    name: 'F15',
    what: 'all connections are reset together',
    targets: ['network'],
    forMs: [0, 0],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: networks.resetAll,
  },
  {
    name: 'F17',
    what: 'a controller is paused, its reaper with it',
    targets: CONTROLLERS,
    groups: ['controllers'],
    forMs: [1_000, 4_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: processes.pauseController,
  },
  {
    name: 'F18',
    what: 'replies to a service are lost, and it gives up',
    targets: CALLERS,
    forMs: [500, 3_000],
    reaches: ['leases'],
    recoveryMsMax: SERVICE_MS_MAX,
    inflict: networks.loseReplies,
  },
  {
    name: 'F9',
    what: 'a datacenter and the others are cut off',
    targets: DATACENTERS,
    groups: ['datacenters'],
    forMs: [2_000, 8_000],
    reaches: ['datacenters'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: datacenters.cutOff,
  },
  {
    name: 'F19',
    what: 'a datacenter is down while others reserve',
    targets: DATACENTERS,
    groups: ['datacenters'],
    forMs: [2_000, 6_000],
    reaches: ['datacenters'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: datacenters.takeDown,
  },
  {
    name: 'F20',
    what: 'it is restored, as the runbook says',
    targets: DATABASE,
    groups: ['database', 'controllers'],
    forMs: [6_000, 8_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: restores.restoreAsTheRunbookSays,
  },
  {
    name: 'F20b',
    what: 'it is put back under controllers that run',
    targets: DATABASE,
    groups: ['database', 'controllers'],
    forMs: [4_000, 6_000],
    reaches: ['leases', 'keys', 'stream'],
    recoveryMsMax: JOBS_MS_MAX,
    inflict: restores.putBackUnderControllers,
  },
];
