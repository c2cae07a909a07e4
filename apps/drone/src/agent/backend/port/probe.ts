import { setTimeout as pause } from 'node:timers/promises';
import type { ProgramConfig, ReadinessConfig } from '../../../config.ts';
import { ownerOf, PortWatch, type BackendPort } from './port-owner.ts';
import { isAnswering } from './readiness.ts';

/** How soon a stranger on the port of a backend that is ready is noticed. */
const WATCH_MS = 2_000;

export interface Probed {
  readonly readiness: ReadinessConfig;
  /** Its process is known only after a while. */
  readonly port: () => BackendPort;
  /** Whether it runs, and nobody has asked for its end. */
  readonly isWanted: () => boolean;
}

/** What is probed of a backend on its port; `pid` is that of its first process. */
export function probedOf(
  program: ProgramConfig,
  of: { host: string; port: number; pid: () => number; isWanted: () => boolean },
): Probed {
  const { host, port, pid, isWanted } = of;
  const hasNetwork = program.kind === 'container' && program.network === 'bridge';
  const inside = hasNetwork ? (program.containerPort ?? port) : null;
  const { readiness } = program;
  return { readiness, port: () => ({ host, port, inside, pid: pid() }), isWanted };
}

/** `stranger`: another process listens on its port, so that nobody may be sent there. */
export type ProbeEnd = 'ready' | 'unwanted' | 'stranger';

/** Resolves when the backend answers, and it is the backend that does. */
export async function untilReady(probed: Probed): Promise<ProbeEnd> {
  const { readiness, port, isWanted } = probed;
  while (isWanted()) {
    const { host, port: number } = port();
    if (await isAnswering(readiness, host, number)) {
      const owner = ownerOf(port());
      if (owner === 'stranger') return isWanted() ? 'stranger' : 'unwanted';
      // Its socket may have been closed between the two looks.
      if (owner !== 'nobody' || readiness.type === 'none') break;
    }
    await pause(readiness.intervalMs);
  }
  return isWanted() ? 'ready' : 'unwanted';
}

/** For a backend that is ready: resolves when it is over, or another process listens in its place. */
export async function untilTaken({ port, isWanted }: Probed): Promise<ProbeEnd> {
  const watch = new PortWatch(port);
  while (isWanted()) {
    if (watch.look() === 'stranger') return isWanted() ? 'stranger' : 'unwanted';
    await pause(WATCH_MS, undefined, { ref: false });
  }
  return 'unwanted';
}
