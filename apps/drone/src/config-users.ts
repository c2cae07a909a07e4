import {
  defaultUserRange,
  derivedUser,
  namedUser,
  userProblem,
  type UserRange,
  type UserSources,
} from './program-users.ts';
import type { UserIds } from './warden/link/protocol.ts';

/** The part of the configuration that says which users programs run as. */
interface UserConfig {
  readonly users?: UserRange | undefined;
  readonly programs: Readonly<Record<string, { readonly user?: string | number | undefined }>>;
}

export interface ProgramUsers {
  of(program: string): UserIds;
  readonly problems: readonly string[];
}

/** The user of each program, and what is wrong with them. */
export function usersOf({ users, programs }: UserConfig, system: UserSources): ProgramUsers {
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
