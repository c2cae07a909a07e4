import { execFile } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import path from 'node:path';
import { GROUP_INIT, NAMESPACE_INIT } from './init-script.ts';
import type { Isolation } from './protocol.ts';

/**
 * How this machine lets the warden start a backend such that it dies with the warden, found out by
 * trying. `chain` is run before init, `session` before the program.
 */
export interface LaunchMeans {
  readonly isolation: Isolation;
  readonly detail: string;
  readonly chain: readonly string[];
  readonly initScript: string;
  readonly session: readonly string[];
  readonly shell: string;
  /** What makes the process that follows end with the one that started it; empty if nothing does. */
  readonly endWithParent: readonly string[];
  /** What the group of the chain is sent for a gentle stop; null: the program's own stop signal. */
  readonly groupStopSignal: 'SIGTERM' | null;
}

const PROBE_TIMEOUT_MS = 5_000;
/** Where the tools are looked for besides PATH: an ordinary user's may not hold all of them. */
const TOOL_FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];

/** Finds a tool of the system by its name. */
export type FindTool = (name: string) => string | undefined;

/**
 * Both links of the chain are needed. The parent-death signal alone leaves descendants alive that
 * called setsid; `unshare --kill-child` alone leaves everything alive when the warden is killed.
 */
export async function probeLaunchMeans(find: FindTool): Promise<LaunchMeans> {
  const shell = find('sh') ?? '/bin/sh';
  const setpriv = find('setpriv');
  const unshare = find('unshare');
  const setsid = find('setsid');
  const defaultSignals = await defaultSignalsCommand(find('env'));
  const onDeath = setpriv === undefined ? [] : [setpriv, '--pdeathsig', 'KILL'];
  const endWithParent = setpriv === undefined ? [] : [...onDeath, '--'];

  if (setpriv !== undefined && unshare !== undefined && setsid !== undefined) {
    const inNamespace = [...onDeath, unshare, '--pid', '--fork', '--kill-child', '--'];
    // Creating a user namespace clears the parent-death signal, so it comes before; the
    // capabilities that it gives serve the next link alone and are dropped again after it.
    const inUserNamespace = [
      ...[unshare, '--user', '--map-current-user', '--keep-caps', '--'],
      ...inNamespace,
      ...[setpriv, '--ambient-caps=-all', '--inh-caps=-all', '--'],
    ];
    for (const [chain, how] of [
      [inNamespace, 'a PID namespace'],
      [inUserNamespace, 'a PID namespace inside a user namespace'],
    ] as const) {
      if (!(await isFirstProcess(chain, shell))) continue;
      return {
        isolation: 'pid-namespace',
        detail: `every backend runs in ${how}: it ends with the warden, descendants included`,
        chain,
        initScript: NAMESPACE_INIT,
        session: [setsid, ...defaultSignals],
        shell,
        endWithParent,
        groupStopSignal: 'SIGTERM',
      };
    }
  }
  return {
    isolation: 'process-group',
    detail:
      setpriv === undefined
        ? 'no PID namespaces and no setpriv: backends may outlive a killed warden'
        : 'no PID namespaces: a backend ends with the warden, descendants that leave its process group may not',
    chain: endWithParent,
    initScript: GROUP_INIT,
    session: [...endWithParent, ...defaultSignals],
    shell,
    endWithParent,
    groupStopSignal: null,
  };
}

async function defaultSignalsCommand(env: string | undefined): Promise<string[]> {
  if (env === undefined) return [];
  const command = [env, '--default-signal=INT,QUIT'];
  return (await outputOf([...command, 'echo', 'yes'])) === 'yes' ? command : [];
}

async function isFirstProcess(chain: readonly string[], shell: string): Promise<boolean> {
  return (await outputOf([...chain, shell, '-c', 'echo $$'])) === '1';
}

/** What a command prints, or undefined when it fails: a probe's failure is its answer. */
function outputOf(command: readonly string[]): Promise<string | undefined> {
  const [file = '', ...args] = command;
  return new Promise((resolve) => {
    execFile(file, args, { timeout: PROBE_TIMEOUT_MS, killSignal: 'SIGKILL' }, (error, stdout) => {
      resolve(error === null ? stdout.trim() : undefined);
    });
  });
}

/** Looks in a PATH, then where systems keep such tools. */
export function toolFinder(searchPath: string): FindTool {
  const folders = [...searchPath.split(path.delimiter), ...TOOL_FOLDERS].filter((folder) =>
    path.isAbsolute(folder),
  );
  return (name) => folders.map((folder) => path.join(folder, name)).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
