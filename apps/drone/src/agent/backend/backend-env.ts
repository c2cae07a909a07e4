/**
 * What a backend finds in its environment. The name of its key is there, its namespace and its tag
 * are not: the id of the key stands for them. Of the agent's own environment, which holds a token,
 * it gets the language and the time zone. `HOME` and `TMPDIR` are set by the warden.
 */
import { isForbiddenEnvName } from '@leasehold/api/drone-file';

/** Where programs look for commands, unless their configuration says otherwise. */
export const PROGRAM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const INHERITED = ['LANG', 'TZ'] as const;

/** The whole environment of a backend. Leasehold's variables come last and cannot be overridden. */
export function backendEnv(input: {
  readonly inherited: Readonly<Record<string, string | undefined>>;
  readonly program: Readonly<Record<string, string>>;
  readonly requested: Readonly<Record<string, string>>;
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly port: number;
  /** Another variable that has the port. */
  readonly portEnv?: string | undefined;
}): Record<string, string> {
  const inherited = INHERITED.flatMap((name) => {
    const value = input.inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    PATH: PROGRAM_PATH,
    // Python keeps back what it prints, until it has printed much, unless it writes to a terminal.
    PYTHONUNBUFFERED: '1',
    ...Object.fromEntries(inherited),
    ...input.program,
    ...input.requested,
    ...leaseholdEnv(input),
  };
}

/** What Leasehold tells every backend, whatever kind of program it runs. */
export function leaseholdEnv(input: {
  readonly keyName: string;
  readonly keyId: string;
  readonly fencingToken: string;
  readonly backendId: string;
  readonly port: number;
  /** Another variable that has the port. */
  readonly portEnv?: string | undefined;
}): Record<string, string> {
  return {
    LEASEHOLD_KEY: input.keyName,
    LEASEHOLD_KEY_ID: input.keyId,
    LEASEHOLD_FENCING_TOKEN: input.fencingToken,
    LEASEHOLD_BACKEND_ID: input.backendId,
    PORT: String(input.port),
    ...(input.portEnv === undefined ? {} : { [input.portEnv]: String(input.port) }),
  };
}

/** Why a program does not take what a request passes; undefined when it does. */
export function requestProblem(
  program: { readonly allowArgs: boolean; readonly allowEnv: readonly string[] },
  request: { readonly args: readonly string[]; readonly env: Readonly<Record<string, string>> },
): string | undefined {
  if (request.args.length > 0 && !program.allowArgs) return 'the program takes no arguments';
  const refused = Object.keys(request.env).filter(
    (name) => isForbiddenEnvName(name) || !program.allowEnv.includes(name),
  );
  return refused.length === 0 ? undefined : `the program does not take ${refused.join(', ')}`;
}
