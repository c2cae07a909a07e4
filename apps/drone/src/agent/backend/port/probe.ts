import { setTimeout as pause } from 'node:timers/promises';
import type { ReadinessConfig } from '../../../config.ts';
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
      // A socket that was closed between the two looks is none.
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
