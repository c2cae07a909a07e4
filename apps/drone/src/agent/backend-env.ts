/**
 * What a backend finds in its environment. The name of its key is there, its namespace and its tag
 * are not: the id of the key stands for them. The agent's own environment, which holds a
 * token, is not passed on, but for what a program needs to find its way.
 */

/** Passed on from the agent's own environment where it is set. */
const INHERITED = ['PATH', 'HOME', 'USER', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'] as const;

const FORBIDDEN = /^(?:LEASEHOLD_.*|PORT|PATH|LD_.*|DYLD_.*|NODE_OPTIONS)$/su;

/** Names that no request may set: Leasehold's own, and those that steer what is loaded. */
export function isForbiddenEnvName(name: string): boolean {
  return FORBIDDEN.test(name);
}

export interface BackendEnvInput {
  readonly inherited: Readonly<Record<string, string | undefined>>;
  readonly program: Readonly<Record<string, string>>;
  readonly requested: Readonly<Record<string, string>>;
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly port: number;
}

/** The whole environment of a backend. What Leasehold says goes last and cannot be overridden. */
export function backendEnv(input: BackendEnvInput): Record<string, string> {
  const inherited = INHERITED.flatMap((name) => {
    const value = input.inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    ...Object.fromEntries(inherited),
    ...input.program,
    ...input.requested,
    LEASEHOLD_KEY: input.keyName,
    LEASEHOLD_KEY_ID: input.keyId,
    LEASEHOLD_FENCING_TOKEN: input.fencingToken,
    LEASEHOLD_BACKEND_ID: input.backendId,
    PORT: String(input.port),
  };
}

export interface SpawnWishes {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** Why a program does not take what a request passes; undefined when it does. */
export function wishProblem(
  program: { readonly allowArgs: boolean; readonly allowEnv: readonly string[] },
  wishes: SpawnWishes,
): string | undefined {
  if (wishes.args.length > 0 && !program.allowArgs) return 'the program takes no arguments';
  const refused = Object.keys(wishes.env).filter(
    (name) => isForbiddenEnvName(name) || !program.allowEnv.includes(name),
  );
  return refused.length === 0 ? undefined : `the program does not take ${refused.join(', ')}`;
}
