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
