/** How much processor time processes take, as Linux counts it. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

/** What each party of a call has used since the process began, in microseconds. */
export interface ProcessorTime {
  readonly client: number;
  readonly controller: number;
  readonly postgres: number;
}

/** All threads of a process, those of garbage collection among them. Nothing for one that has ended. */
export function usedUs(pid: number | string): number {
  let usedNs = 0;
  try {
    for (const thread of readdirSync(`/proc/${String(pid)}/task`)) {
      const counts = readFileSync(`/proc/${String(pid)}/task/${thread}/schedstat`, 'utf8');
      usedNs += Number(counts.split(' ', 1)[0]);
    }
  } catch {
    return 0;
  }
  return usedNs / 1_000;
}

/** PostgreSQL's processes are those that work in its folder. */
function isIn(pid: string, folder: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`).startsWith(folder);
  } catch {
    return false;
  }
}

/** What processes of a folder had used when they were last seen: those that end have not used less. */
const lastSeenUs = new Map<string, number>();

/** Now, for this process as the client. */
export function readProcessorTime(of: {
  readonly controllerPids: readonly number[];
  readonly postgresFolder: string;
}): ProcessorTime {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/u.test(name));
  const sum = (list: readonly (number | string)[]): number =>
    list.reduce<number>((total, pid) => total + usedUs(pid), 0);
  return {
    client: usedUs(process.pid),
    controller: sum(of.controllerPids),
    postgres: postgresUs(pids, of.postgresFolder),
  };
}

function postgresUs(pids: readonly string[], folder: string): number {
  for (const pid of pids) {
    if (isIn(pid, folder)) lastSeenUs.set(`${folder} ${pid}`, usedUs(pid));
  }
  let total = 0;
  for (const [process, us] of lastSeenUs) if (process.startsWith(`${folder} `)) total += us;
  return total;
}
