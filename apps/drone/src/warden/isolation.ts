import { execFile } from 'node:child_process';
import { accessSync, constants, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { NOTHING_MISSING } from '@leasehold/keys-core';
import { ControlGroups, limitLacks } from './limits.ts';
import { mountTableOf } from './program-files.ts';
import type { IsolationFacts, UserIds } from './protocol.ts';

/**
 * How this machine lets the warden start a backend such that it dies with the warden and reaches
 * nothing of the drone, found out by trying. `chain` is run before init, `session` before the program.
 */
export interface LaunchMeans {
  readonly facts: IsolationFacts;
  readonly chain: readonly string[];
  /** The command that mounts; null when a backend sees the files as the warden does. */
  readonly mount: string | null;
  readonly session: readonly string[];
  /** Takes privileges away, and changes the user unless that is null. */
  readonly drop: (user: UserIds | null) => readonly string[];
  readonly shell: string;
  readonly groups: ControlGroups;
  /** Whether each backend has a user namespace of its own. */
  readonly isUserNamespace: boolean;
  /** The prefix that makes a process end with its parent; empty if the machine has none. */
  readonly endWithParent: readonly string[];
  /** What the group of the chain is sent for a gentle stop; null: the program's own stop signal. */
  readonly groupStopSignal: 'SIGTERM' | null;
}

interface ProbeOptions {
  readonly find: FindTool;
  readonly stateDir: string;
  /** An empty folder in it, to try a mount in. */
  readonly workshop: string;
  readonly isRoot: boolean;
}

const PROBE_TIMEOUT_MS = 5_000;
/** Where the tools are looked for besides PATH: an ordinary user's may not hold all of them. */
const TOOL_FOLDERS = ['/usr/bin', '/bin', '/usr/sbin', '/sbin'];
/** Any other user: only to find out whether the user can be changed. */
const SOMEBODY: UserIds = { uid: 65_534, gid: 65_534 };

/** Finds a tool of the system by its name. */
type FindTool = (name: string) => string | undefined;

interface Tools {
  readonly shell: string;
  readonly setpriv: string | undefined;
  readonly unshare: string | undefined;
  readonly setsid: string | undefined;
  readonly mount: string | undefined;
  readonly defaultSignals: readonly string[];
}

/** One way to start a backend, before it is known whether the machine allows it. */
interface Candidate {
  readonly chain: readonly string[];
  readonly hasView: boolean;
  readonly isUserNamespace: boolean;
}

export async function probeLaunchMeans(options: ProbeOptions): Promise<LaunchMeans> {
  const tools = await toolsOf(options.find);
  const candidate = await firstPossible(tools, options);
  const endWithParent =
    tools.setpriv === undefined ? [] : [tools.setpriv, '--pdeathsig', 'KILL', '--'];
  const drops = await possibleDrops(tools, candidate);
  const canChangeUser =
    options.isRoot &&
    candidate?.isUserNamespace !== true &&
    (await isPossible([...(candidate?.chain ?? []), ...dropOf(tools, drops, SOMEBODY)]));
  const groups = ControlGroups.find(options.stateDir);
  const facts = factsOf({ candidate, drops, canChangeUser, groups, isRoot: options.isRoot });
  const drop = (user: UserIds | null): readonly string[] => dropOf(tools, drops, user);
  const isUserNamespace = candidate?.isUserNamespace === true;
  const common = { facts, drop, groups, isUserNamespace, shell: tools.shell, endWithParent };
  const calm = calmOf(options.find);
  if (candidate === undefined) {
    return {
      ...common,
      chain: [...calm, ...endWithParent],
      mount: null,
      session: tools.defaultSignals,
      groupStopSignal: null,
    };
  }
  return {
    ...common,
    chain: [...calm, ...candidate.chain],
    mount: candidate.hasView ? (tools.mount ?? null) : null,
    session: [tools.setsid ?? 'setsid', ...tools.defaultSignals],
    groupStopSignal: 'SIGTERM',
  };
}

/** A drone that goes before other processes does so for its deadlines, and not for its backends. */
function calmOf(find: FindTool): readonly string[] {
  const niceness = os.getPriority();
  const nice = find('nice');
  return niceness >= 0 || nice === undefined ? [] : [nice, '-n', String(-niceness)];
}

async function toolsOf(find: FindTool): Promise<Tools> {
  return {
    shell: find('sh') ?? '/bin/sh',
    setpriv: find('setpriv'),
    unshare: find('unshare'),
    setsid: find('setsid'),
    mount: find('mount'),
    defaultSignals: await defaultSignalsCommand(find('env')),
  };
}

/**
 * Both links of the chain are needed. The parent-death signal alone leaves descendants alive that
 * called setsid; `unshare --kill-child` alone leaves everything alive when the warden is killed.
 */
async function firstPossible(
  tools: Tools,
  { stateDir, workshop }: Pick<ProbeOptions, 'stateDir' | 'workshop'>,
): Promise<Candidate | undefined> {
  const { setpriv, unshare, setsid, shell, mount, defaultSignals } = tools;
  if (setpriv === undefined || unshare === undefined || setsid === undefined) return undefined;
  const inNamespace = (...more: string[]): string[] => [
    setpriv,
    '--pdeathsig',
    'KILL',
    unshare,
    ...more,
    '--pid',
    '--fork',
    '--kill-child',
    '--',
    // Before 2.38 it hands on that it ignores SIGTERM itself, which no shell could trap then.
    ...defaultSignals,
  ];
  // Creating a user namespace clears the parent-death signal, so it comes before. The capabilities
  // that it gives are init's: they keep a program of the same user from reaching into init.
  const inUserNamespace = (...more: string[]): string[] => [
    unshare,
    '--user',
    '--map-current-user',
    '--keep-caps',
    '--',
    ...inNamespace(...more),
  ];
  const view = ['--mount', '--mount-proc'];
  const candidates: readonly Candidate[] = [
    { chain: inNamespace(...view), hasView: true, isUserNamespace: false },
    { chain: inUserNamespace(...view), hasView: true, isUserNamespace: true },
    { chain: inNamespace(), hasView: false, isUserNamespace: false },
    { chain: inUserNamespace(), hasView: false, isUserNamespace: true },
  ];
  const table = path.join(stateDir, 'mounts.probe');
  const empty = { hidden: [stateDir], blocked: [], reads: [], writes: [] };
  writeFileSync(table, mountTableOf({ ...empty, workshop }), { mode: 0o600 });
  try {
    return await firstOf(candidates, [setsid, shell], { mount: mount ?? 'mount', table });
  } finally {
    rmSync(table);
  }
}

/** As a gentle stop does: tells the whole group, of which the chain and init must be left. */
const STOP_ITSELF = `trap 'echo asked' TERM; kill -s TERM 0; echo "$$"`;

async function firstOf(
  candidates: readonly Candidate[],
  [setsid, shell]: readonly [string, string],
  { mount, table }: { mount: string; table: string },
): Promise<Candidate | undefined> {
  for (const { chain, ...candidate } of candidates) {
    const test = candidate.hasView
      ? [`"$1" --all --fstab "$2" && ${STOP_ITSELF}`, 'probe', mount, table]
      : [STOP_ITSELF];
    const said = await outputOf([setsid, ...chain, shell, '-c', ...test]);
    if (said === 'asked\n1') return { chain, ...candidate };
  }
  return undefined;
}

const DROP_EVERYTHING = [
  '--no-new-privs',
  '--inh-caps=-all',
  '--ambient-caps=-all',
  '--bounding-set=-all',
];

/** The most privileges that can be dropped, tried where the program will run. */
async function possibleDrops(
  { setpriv }: Tools,
  candidate: Candidate | undefined,
): Promise<readonly string[]> {
  if (setpriv === undefined) return [];
  // Without a namespace that ends with init, the program itself ends with its parent.
  const onDeath = candidate === undefined ? ['--pdeathsig', 'KILL'] : [];
  // Without CAP_SETPCAP the bounding set stays, and does not matter to a program that gains no privileges.
  for (const drops of [DROP_EVERYTHING, DROP_EVERYTHING.slice(0, -1)]) {
    const command = [...(candidate?.chain ?? []), setpriv, ...onDeath, ...drops, '--'];
    if (await isPossible(command)) return [...onDeath, ...drops];
  }
  return onDeath;
}

function dropOf(tools: Tools, drops: readonly string[], user: UserIds | null): readonly string[] {
  if (tools.setpriv === undefined) return [];
  const change =
    user === null
      ? []
      : ['--reuid', String(user.uid), '--regid', String(user.gid), '--clear-groups'];
  const options = [...change, ...drops];
  return options.length === 0 ? [] : [tools.setpriv, ...options, '--'];
}

function factsOf(of: {
  candidate: Candidate | undefined;
  drops: readonly string[];
  canChangeUser: boolean;
  groups: ControlGroups;
  isRoot: boolean;
}): IsolationFacts {
  const { candidate, drops, canChangeUser, groups, isRoot } = of;
  const hasView = candidate?.hasView === true;
  const noNewPrivs = drops.includes('--no-new-privs');
  const facts = {
    user: canChangeUser ? 'own' : 'shared',
    pidNamespace: candidate !== undefined,
    privateProc: hasView,
    hiddenHome: hasView,
    noNewPrivs,
  } as const;
  const limits = limitLacks((controller) => groups.bounds(controller));
  const lacks = [...lacksOf(facts, isRoot), ...limits];
  // Only its type is imported: the warden stays small.
  const nothing = 'nothing is missing' satisfies typeof NOTHING_MISSING;
  const detail = lacks.length === 0 ? nothing : `missing: ${lacks.join('; ')}`;
  return { ...facts, detail };
}

function lacksOf(facts: Omit<IsolationFacts, 'detail'>, isRoot: boolean): string[] {
  const lacks: string[] = [];
  if (facts.user === 'shared') {
    const why = isRoot ? 'root may not change to them here' : 'the drone does not run as root';
    lacks.push(`users of their own for programs (${why})`);
  }
  if (!facts.pidNamespace) {
    lacks.push(
      facts.noNewPrivs
        ? 'PID namespaces (what leaves the process group of a backend may outlive it)'
        : 'PID namespaces and setpriv (backends may outlive a killed warden)',
    );
  }
  if (!facts.privateProc) lacks.push("mount namespaces (the machine's /proc and files are seen)");
  if (!facts.noNewPrivs) lacks.push('no_new_privs (programs may gain privileges)');
  return lacks;
}

async function defaultSignalsCommand(env: string | undefined): Promise<string[]> {
  if (env === undefined) return [];
  const command = [env, '--default-signal=INT,QUIT,TERM'];
  return (await isPossible(command)) ? command : [];
}

/** Whether a command that runs another one works. */
async function isPossible(command: readonly string[]): Promise<boolean> {
  return (await outputOf([...command, '/bin/echo', 'yes'])) === 'yes';
}

/** What a command prints, or undefined when it fails: a probe's failure is its answer. */
function outputOf(command: readonly string[]): Promise<string | undefined> {
  const [file = '', ...args] = command;
  return new Promise((resolve) => {
    execFile(file, args, { timeout: PROBE_TIMEOUT_MS, killSignal: 'SIGKILL' }, (error, stdout) =>
      resolve(error === null ? stdout.trim() : undefined),
    );
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
