/**
 * What a backend finds in its environment. The name of its key is there, its namespace and its tag
 * are not: the id of the key stands for them. Of the agent's own environment, which holds a token,
 * it gets the language and the time zone. `HOME` and `TMPDIR` are set by the warden.
 */

/** Where programs look for commands, unless their configuration says otherwise. */
export const PROGRAM_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const INHERITED = ['LANG', 'TZ'] as const;

/**
 * Variables that make a program load code, run commands, or look for its data elsewhere: those
 * that the C library ignores for privileged programs, those that sudo removes, and those of common
 * interpreters and tools.
 */
const FORBIDDEN = [
  // Leasehold's own.
  /^(?:LEASEHOLD_.*|PORT|PATH|HOME|TMPDIR)$/u,
  // The loader and the C library.
  /^(?:LD_.*|_RLD.*|DYLD_.*|SHLIB_PATH|LIBPATH|GLIBC_TUNABLES|MALLOC_.*|GCONV_PATH|GETCONF_DIR)$/u,
  /^(?:LOCPATH|NLSPATH|PATH_LOCALE|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS|RESOLV_HOST_CONF)$/u,
  /^(?:NIS_PATH|TZDIR|TERMINFO.*|TERMPATH|TERMCAP|KRB5_.*|OPENSSL_.*|SSLKEYLOGFILE)$/u,
  // Shells.
  /^(?:ENV|BASH_ENV|_*BASH_FUNC.*|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|IFS|CDPATH|GLOBIGNORE)$/u,
  /^(?:FPATH|ZDOTDIR|NULLCMD|READNULLCMD|TMPPREFIX|SHELL|INPUTRC|FCEDIT|HISTFILE)$/u,
  // Interpreters and runtimes.
  /^(?:PERL.*|PYTHON.*|RUBY.*|GEM_.*|BUNDLE_.*|PHPRC|PHP_INI_SCAN_DIR|LUA_.*|TCLLIBPATH)$/u,
  /^(?:NODE_(?:OPTIONS|PATH|EXTRA_CA_CERTS|REPL_.*|V8_COVERAGE|REDIRECT_WARNINGS)|DENO_.*|BUN_.*)$/u,
  /^(?:_?JAVA_.*|JDK_JAVA_OPTIONS|CLASSPATH|JULIA_.*|R_.*|ERL_.*|ELIXIR_.*|GUILE_.*|GHCRTS)$/u,
  /^(?:DOTNET_.*|COMPLUS_.*|CORECLR_.*|MONO_.*|GODEBUG|GOFLAGS|RUSTC_.*|CARGO_.*)$/iu,
  // Tools that others run, and what they run in turn.
  /^(?:GIT_.*|SSH_.*|SUDO_.*|EDITOR|VISUAL|PAGER|MANPAGER|BROWSER|LESS(?:OPEN|CLOSE)|AWK.*PATH)$/u,
  /^(?:npm_config_.*|YARN_.*|PIP_.*|MAKEFLAGS|EMACSLOADPATH|XDG_.*|GTK_.*|QT_.*|GST_.*)$/iu,
];

/** Whether no request may set a variable, whatever a program's configuration allows. */
export function isForbiddenEnvName(name: string): boolean {
  return FORBIDDEN.some((names) => names.test(name));
}

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
}): Record<string, string> {
  const inherited = INHERITED.flatMap((name) => {
    const value = input.inherited[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return {
    PATH: PROGRAM_PATH,
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
}): Record<string, string> {
  return {
    LEASEHOLD_KEY: input.keyName,
    LEASEHOLD_KEY_ID: input.keyId,
    LEASEHOLD_FENCING_TOKEN: input.fencingToken,
    LEASEHOLD_BACKEND_ID: input.backendId,
    PORT: String(input.port),
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
