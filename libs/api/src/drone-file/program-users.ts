/**
 * The users that programs run as: the one that the configuration names, or else one of a range, by
 * the hash of the program's name. So a program keeps its user over restarts, two programs have
 * different ones, and nobody has to create them first.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** A user of this machine, and its group. */
export interface UserIds {
  readonly uid: number;
  readonly gid: number;
}

/** Whole numbers, both included. */
interface UserRange {
  readonly from: number;
  readonly to: number;
}

/**
 * Numbers that no distribution, container runtime or directory service gives out by itself: above the ranges
 * of subordinate users and of SSSD, below the largest number that a signed integer holds.
 */
const USUAL_RANGE: UserRange = { from: 2_100_000_000, to: 2_100_999_999 };
/** For a user namespace with only the usual 65,536: what systemd gives to dynamic users. */
const SMALL_RANGE: UserRange = { from: 61_184, to: 65_519 };

export interface UserSources {
  /** As `/etc/passwd`. */
  readonly accounts: string;
  /** As `/proc/self/uid_map`: the users that there are in this user namespace. */
  readonly map: string;
  /** Whether the drone may change users at all. */
  readonly isRoot: boolean;
}

/** The accounts of this machine; names of a directory service are not among them. */
export function systemUsers(): UserSources {
  return {
    accounts: read('/etc/passwd'),
    map: read('/proc/self/uid_map'),
    isRoot: process.getuid?.() === 0,
  };
}

/** The user of each program, and what is wrong with them. */
export function usersOf(
  {
    users,
    programs,
  }: {
    readonly users?: UserRange | undefined;
    readonly programs: Readonly<Record<string, { readonly user?: string | number | undefined }>>;
  },
  system: UserSources,
): { readonly problems: readonly string[]; of(program: string): UserIds } {
  const range = users ?? defaultUserRange(system);
  const problems: string[] = [];
  const byProgram = new Map<string, UserIds>();
  const derived = new Map<number, string>();
  for (const [name, { user: wanted }] of Object.entries(programs)) {
    const user = wanted === undefined ? derivedUser(name, range) : namedUser(wanted, system);
    const place = `programs.${name}.user`;
    if (user === undefined) {
      problems.push(`${place}: this machine has no account ${String(wanted)}; a number needs none`);
      continue;
    }
    byProgram.set(name, user);
    // A drone that is not root runs everything as its own user.
    if (wanted === undefined && !system.isRoot) continue;
    const problem = userProblem(user, system, wanted === undefined);
    if (problem !== undefined) problems.push(`${place}: ${problem}`);
    if (wanted !== undefined) continue;
    const other = derived.get(user.uid);
    if (other !== undefined) {
      problems.push(`${place}: would be that of ${other}; name a \`user\` for one of them`);
    }
    derived.set(user.uid, name);
  }
  return {
    problems,
    of: (program) => byProgram.get(program) ?? derivedUser(program, range),
  };
}

/** The range that users of programs are taken from where the configuration names none. */
function defaultUserRange({ map }: Pick<UserSources, 'map'>): UserRange {
  return isMapped(USUAL_RANGE.to, map) ? USUAL_RANGE : SMALL_RANGE;
}

/** The user of a program by its name alone. */
function derivedUser(program: string, { from, to }: UserRange): UserIds {
  const hash = createHash('sha256').update(`leasehold.program-user\0${program}`).digest();
  const id = from + (hash.readUIntBE(0, 6) % (to - from + 1));
  return { uid: id, gid: id };
}

/** The user that a configuration names: `name`, `uid` or `uid:gid`. Undefined when none exists. */
function namedUser(
  wanted: string | number,
  { accounts }: Pick<UserSources, 'accounts'>,
): UserIds | undefined {
  const [user = '', group] = String(wanted).split(':');
  const account = accountsOf(accounts).find(
    ({ name, uid }) => name === user || String(uid) === user,
  );
  const uid = account?.uid ?? (/^\d+$/u.test(user) ? Number(user) : undefined);
  if (uid === undefined) return undefined;
  return { uid, gid: group === undefined ? (account?.gid ?? uid) : Number(group) };
}

/** Why a program may not run as this user; undefined when it may. */
function userProblem(
  { uid, gid }: UserIds,
  { map, accounts }: UserSources,
  isDerived: boolean,
): string | undefined {
  if (uid === 0 || gid === 0) return 'must not be root';
  if (!isMapped(uid, map)) {
    return `is ${String(uid)}, and this machine has no such user; choose \`users\` from ${mappedText(map)}`;
  }
  const account = accountsOf(accounts).find((one) => one.uid === uid);
  if (isDerived && account !== undefined) {
    return `would be ${account.name}, who has an account; name a \`user\`, or choose other \`users\``;
  }
  return undefined;
}

interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

function accountsOf(text: string): Account[] {
  return text.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':');
    if (name === undefined || uid === undefined || gid === undefined) return [];
    return [{ name, uid: Number(uid), gid: Number(gid) }];
  });
}

/** Where there is no map, there is no user namespace either. */
function isMapped(uid: number, map: string): boolean {
  const ranges = rangesOf(map);
  return ranges.length === 0 || ranges.some(({ from, to }) => from <= uid && uid <= to);
}

function rangesOf(map: string): UserRange[] {
  return map.split('\n').flatMap((line) => {
    const [from, , count] = line.trim().split(/\s+/u).map(Number);
    return from === undefined || count === undefined ? [] : [{ from, to: from + count - 1 }];
  });
}

function mappedText(map: string): string {
  return rangesOf(map)
    .map(({ from, to }) => `${String(from)} to ${String(to)}`)
    .join(', ');
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
