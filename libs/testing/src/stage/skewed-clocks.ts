import { writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

/** How a machine's clocks are wrong. */
export interface ClockFault {
  /**
   * The boot clock, and the monotonic one, run at this rate from now on, as agent and warden read them.
   * The leash reads the machine's own, so a slow one is ended a little early.
   */
  readonly bootRate?: number | undefined;
  readonly bootAheadMs?: number | undefined;
  readonly wallAheadMs?: number | undefined;
  /** The wall clock falls back to where it began, again and again, at this interval. */
  readonly wallStepsBackEveryMs?: number | undefined;
}

/**
 * A program in a folder that runs `entry` with wrong clocks. A drone's warden is started from the same one, so
 * that the whole machine has one wrong clock.
 */
export async function skewedEntry(
  folder: string,
  entry: string,
  fault: ClockFault,
): Promise<string> {
  const { bootRate = 1, bootAheadMs = 0, wallAheadMs = 0, wallStepsBackEveryMs = 0 } = fault;
  const name = JSON.stringify([path.basename(entry, '.mjs'), fault]);
  const file = path.join(folder, `${name.replaceAll(/[^a-zA-Z0-9]+/gu, '-')}.mjs`);
  await writeFile(
    file,
    `import os from 'node:os';
const uptime = os.uptime;
const from = ${String(os.uptime())};
os.uptime = () => from + (uptime() - from) * ${String(bootRate)} + ${String(bootAheadMs / 1_000)};
const monotonicMs = performance.now.bind(performance);
performance.now = () => monotonicMs() * ${String(bootRate)};
const RealDate = Date;
const began = RealDate.now();
const wallMs = () => {
  const passed = RealDate.now() - began;
  const every = ${String(wallStepsBackEveryMs)};
  return began + ${String(wallAheadMs)} + (every > 0 ? passed % every : passed);
};
globalThis.Date = class extends RealDate {
  constructor(...parts) {
    if (parts.length === 0) super(wallMs());
    else super(...parts);
  }
  static now() {
    return wallMs();
  }
};
await import(${JSON.stringify(pathToFileURL(entry).href)});
`,
  );
  return file;
}
