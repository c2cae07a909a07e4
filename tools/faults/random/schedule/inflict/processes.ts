/** Faults of processes. */
import { setTimeout as pause } from 'node:timers/promises';
import {
  descendantsOf,
  signalProcess,
  type StageDrone,
  type TestProcess,
} from '@leasehold/testing/stack';
import { leashOf } from '../../../stage/machine-processes.ts';
import { WORKERS, type World } from '../../world/world.ts';

export async function pauseWorker(world: World, target: string, forMs: number): Promise<void> {
  await pausing(workerOf(world, target), forMs);
}

export async function stallWorker(world: World, target: string, forMs: number): Promise<void> {
  workerOf(world, target).signal('SIGUSR2');
  await pause(forMs);
}

export async function killWorker(world: World, target: string, forMs: number): Promise<void> {
  const planned = WORKERS.find(({ name }) => name === target);
  if (planned === undefined) throw new Error(`no worker ${target}`);
  await workerOf(world, target).kill();
  await pause(forMs);
  await world.fleet.startWorker(target, planned.role);
}

/** How long replies are held back before the kill: some of them are of what was committed. */
const HELD_BACK_MS = 150;

export async function killController(world: World, target: string, forMs: number): Promise<void> {
  const index = indexOf(target);
  const lines = WORKERS.flatMap(({ name }) => world.network.lines(name, target));
  for (const line of lines) line.drop('down');
  await pause(HELD_BACK_MS);
  await world.fleet.controllers[index]?.kill();
  for (const line of lines) line.heal();
  await pause(forMs);
  await world.fleet.restartController(index);
}

export async function pauseController(world: World, target: string, forMs: number): Promise<void> {
  const controller = world.fleet.controllers[indexOf(target)];
  if (controller === undefined) throw new Error(`no controller ${target}`);
  await pausing(controller, forMs);
}

export async function killAgent(world: World, target: string, forMs: number): Promise<void> {
  const drone = droneOf(world, target);
  await drone.agent.kill();
  await pause(forMs);
  await drone.startAgent();
}

export async function killWarden(world: World, target: string): Promise<void> {
  await droneOf(world, target).killWarden();
}

/** Agent, warden, leash and backends; the worst order of waking: what must not act wakes first. */
export async function suspendDrone(world: World, target: string, forMs: number): Promise<void> {
  const drone = droneOf(world, target);
  const { pid } = drone.warden();
  const leash = leashOf(pid);
  // The programs of its warden, and what is between it and them.
  const programs = descendantsOf(pid).filter((each) => !leash.includes(each));
  const others = [drone.agent.pid, pid, ...leash];
  for (const each of [...others, ...programs]) signalProcess(each, 'SIGSTOP');
  try {
    await pause(forMs);
  } finally {
    for (const each of [...programs, ...others]) signalProcess(each, 'SIGCONT');
  }
}

async function pausing(process: TestProcess, forMs: number): Promise<void> {
  process.signal('SIGSTOP');
  try {
    await pause(forMs);
  } finally {
    process.signal('SIGCONT');
  }
}

function workerOf(world: World, name: string): TestProcess {
  const worker = world.fleet.workers.get(name);
  if (worker === undefined) throw new Error(`no worker ${name}`);
  return worker.process;
}

function droneOf(world: World, name: string): StageDrone {
  const drone = world.fleet.drones[indexOf(name)];
  if (drone === undefined) throw new Error(`no drone ${name}`);
  return drone;
}

/** Targets are named by a letter and their place. */
function indexOf(target: string): number {
  return Number(target.slice(1));
}
