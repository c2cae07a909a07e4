/** The processes of this machine, as the kernel shows them in `/proc`. */
import { readdirSync, readFileSync } from 'node:fs';

/** One process, at the moment of a look. */
export interface ProcessStat {
  readonly pid: number;
  readonly parent: number;
  readonly group: number;
  readonly session: number;
  /** Of processor time, in all: its own, and that of its children which have ended. */
  readonly ticks: number;
  readonly residentPages: number;
}

/** All processes; none where there is no `/proc`. */
export function readProcesses(folder = '/proc'): ProcessStat[] {
  let names: string[];
  try {
    names = readdirSync(folder);
  } catch {
    return [];
  }
  return names.flatMap((name) => {
    const pid = Number(name);
    return Number.isInteger(pid) && pid > 0 ? (statOf(folder, pid) ?? []) : [];
  });
}

/**
 * For any number of first processes: a process, all that it has started, and what they have started; those of its
 * group and session too. The first one comes first, and those that were started last come last.
 */
export function membersBy(stats: readonly ProcessStat[]): (pid: number) => ProcessStat[] {
  const byPid = new Map(stats.map((stat) => [stat.pid, stat]));
  const children = groupedBy(stats, ({ parent }) => parent);
  const groups = groupedBy(stats, ({ group }) => group);
  const sessions = groupedBy(stats, ({ session }) => session);
  return (pid) => {
    const first = byPid.get(pid);
    const found = new Set(first === undefined ? [] : [first]);
    for (const stat of [...(groups.get(pid) ?? []), ...(sessions.get(pid) ?? [])]) found.add(stat);
    // What is added while it is gone through is gone through too.
    for (const stat of found) for (const child of children.get(stat.pid) ?? []) found.add(child);
    for (const child of children.get(pid) ?? []) found.add(child);
    return [...found];
  };
}

function groupedBy(
  stats: readonly ProcessStat[],
  keyOf: (stat: ProcessStat) => number,
): ReadonlyMap<number, readonly ProcessStat[]> {
  const groups = new Map<number, ProcessStat[]>();
  for (const stat of stats) {
    const key = keyOf(stat);
    const group = groups.get(key);
    if (group === undefined) groups.set(key, [stat]);
    else group.push(stat);
  }
  return groups;
}

function statOf(folder: string, pid: number): ProcessStat | undefined {
  try {
    const text = readFileSync(`${folder}/${String(pid)}/stat`, 'utf8');
    // The second field is the command in brackets, which may itself hold brackets and blanks.
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    const [parent = 0, group = 0, session = 0] = fields.slice(1, 4);
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + each, 0);
    return { pid, parent, group, session, ticks, residentPages: fields[21] ?? 0 };
  } catch {
    return undefined; // it has just ended
  }
}
