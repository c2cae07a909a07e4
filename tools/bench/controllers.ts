import { mkdtemp } from 'node:fs/promises';
import path from 'node:path';
import type { BenchServers } from './rig/bench-controller.ts';
import { startChild, type Child } from './rig/child.ts';
import type { TimeByPart } from './rig/profiler.ts';
import { insertTokenOf, type BenchDatabase, type Rig } from './rig/rig.ts';

/** Controllers of one installation. */
export interface Controllers {
  readonly urls: readonly string[];
  readonly pids: readonly number[];
  /** Profiles the first controller until the returned function is called. */
  readonly profile: () => Promise<() => Promise<TimeByPart>>;
  /** Of a service. */
  readonly token: string;
}

/** Starts controllers, each a process of its own, which end with the rig. */
export async function startControllers(
  rig: Rig,
  database: BenchDatabase,
  count: number,
): Promise<Controllers> {
  const urls: string[] = [];
  const children: Child<BenchServers>[] = [];
  for (let place = 0; place < count; place += 1) {
    const home = await mkdtemp(path.join(rig.folder, 'controller-'));
    const controller = await startChild<BenchServers>('bench-controller', [database.url, home]);
    rig.onClose(() => controller.stop());
    urls.push(controller.ready.controllerUrl);
    children.push(controller);
  }
  const [first] = children;
  return {
    urls,
    pids: children.map(({ pid }) => pid),
    async profile() {
      await first?.ask();
      return async () => (await first?.ask()) as TimeByPart;
    },
    token: await insertTokenOf(database, { role: 'client', droneId: null }),
  };
}
