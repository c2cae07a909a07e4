/** Faults of lines. */
import { setTimeout as pause } from 'node:timers/promises';
import type { FaultProxy } from '@leasehold/testing/stack';
import type { World } from '../../world/world.ts';

const DELAY_MS_MIN = 20;
const DELAY_MS_MAX = 150;
const SLOW_MS = 60;

export function cutControllers(world: World, target: string, forMs: number): Promise<void> {
  return during(world.network.lines(target, 'c'), forMs, (line) => {
    line.drop();
  });
}

export function cutOneWay(world: World, target: string, forMs: number): Promise<void> {
  return during(world.network.lines(target, 'c'), forMs, (line) => {
    line.drop('up');
  });
}

export function cutDatabase(world: World, target: string, forMs: number): Promise<void> {
  return during(world.network.lines(target, 'database'), forMs, (line) => {
    line.drop();
  });
}

export function loseReplies(world: World, target: string, forMs: number): Promise<void> {
  return during(world.network.lines(target, 'c'), forMs, (line) => {
    line.drop('down');
  });
}

/** What is sent over two lines arrives in another order. */
export function delayAll(world: World, _target: string, forMs: number): Promise<void> {
  const { all } = world.network;
  return during(all, forMs, (line) => {
    const share = all.indexOf(line) / all.length;
    line.delay(DELAY_MS_MIN + share * (DELAY_MS_MAX - DELAY_MS_MIN));
  });
}

export function slowDatabase(world: World, _target: string, forMs: number): Promise<void> {
  const lines = ['c0', 'c1'].flatMap((name) => world.network.lines(name, 'database'));
  return during(lines, forMs, (line) => {
    line.delay(SLOW_MS);
  });
}

export function resetAll(world: World): Promise<void> {
  for (const line of world.network.all) line.cut();
  return Promise.resolve();
}

async function during(
  lines: readonly FaultProxy[],
  forMs: number,
  begin: (line: FaultProxy) => void,
): Promise<void> {
  if (lines.length === 0) throw new Error('there is no such line');
  for (const line of lines) begin(line);
  try {
    await pause(forMs);
  } finally {
    for (const line of lines) line.heal();
  }
}
