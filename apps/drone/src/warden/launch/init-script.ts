/**
 * The first process of a backend: a few lines of POSIX shell between the warden and the program. It
 * runs as the warden's user; the program need not.
 *
 * It reports over file descriptor 3, is released over file descriptor 4, and reads the table of mounts
 * from file descriptor 5:
 *
 *   init ─"ready"─▶ warden ─"go"─▶ init starts the program ─"running"─▶ warden
 *   … the program ends: init ─"exit N"─▶ warden
 *
 * - Before `ready` it makes the program's view of the files and enters the program's folder. What goes
 *   wrong is reported as `failed` and a reason, and the program never starts.
 * - The parent-death signals are armed before `ready`. If the warden dies earlier, init reads the
 *   end of file instead of `go`, and the program never starts.
 * - Between `ready` and `go` the warden notes the namespace and checks once more that there is time.
 * - The program's process says `running` when it no longer has init's handlers: a signal that comes
 *   earlier would be lost. The warden keeps a stop back until then.
 * - Shells start a background job with SIGINT and SIGQUIT ignored; `env --default-signal` repairs
 *   that, where it exists, so that a program may be stopped with either.
 * - A signal that comes before the program runs ends init (nothing has started), and one that comes
 *   during `wait` interrupts it: hence the loop. Whether the program is gone by then is not asked: the
 *   shell may have reaped it already, and only `wait` has its exit code.
 * - `wait` reaps orphans of the namespace too.
 *
 * Arguments: the stop signal, the program's folder, the `mount` command (empty where there is no view
 * to make), what limits the program (lines of shell), folders to make read-only, `--`, files by which
 * init joins control groups, `--`, and the command line that becomes the program.
 */

/** Of a machine without memory: a backend is ended before the drone that watches it, and before other services. */
const OUT_OF_MEMORY_SCORE = 500;

const PREPARE = `
exec 6>&2 2>/dev/null
umask 022
fail() { echo "failed $*" >&3; exit 125; }
signal=$1; folder=$2; mount=$3; limits=$4; shift 4
`;

/** The kernel refuses a remount that drops options that the machine had set, so the usual ones are tried. */
const VIEW = `
readonly_again() {
  "$mount" -o remount,bind,ro "$1" ||
  "$mount" -o remount,bind,ro,nosuid,nodev "$1" ||
  "$mount" -o remount,bind,ro,nosuid,nodev,noexec "$1"
}
if [ -n "$mount" ]; then
  problem=$("$mount" --all --fstab /proc/self/fd/5 2>&1) ||
    fail "its view of the files could not be made: $problem"
fi
while [ "$1" != -- ]; do
  "$mount" --rbind "$1" "$1" && readonly_again "$1" || fail "$1 could not be made read-only"
  shift
done
shift
`;

const JOIN = `
while [ "$1" != -- ]; do
  echo 0 >"$1" || fail "it could not join the control group $1"
  shift
done
shift
`;

const ENTER = `
cd "$folder" || fail "its folder $folder cannot be entered"
unset OLDPWD
umask 077
`;

const RUN = `
echo ready >&3
read -r go <&4 || exit 125
[ "$stopped" = 0 ] || exit 143
(
  echo ${String(OUT_OF_MEMORY_SCORE)} >/proc/self/oom_score_adj
  eval "$limits"
  echo running >&3; exec "$@" 2>&6 3>&- 4>&- 5>&- 6>&-
) &
child=$!
[ "$stopped" = 0 ] || kill -s "$signal" "$child"
while :; do
  interrupted=0
  wait "$child"; code=$?
  [ "$interrupted" = 1 ] || break
done
echo "exit $code" >&3
`;

/**
 * As PID 1 of its own namespace. A PID 1 without a handler ignores every signal, so the program is
 * not PID 1: init is, and turns SIGTERM into the stop signal of the program's own session. When
 * init ends, the kernel kills everything that is left in the namespace. A shell ends at SIGINT even as PID 1,
 * and a program of the same user may send it one: hence its trap.
 */
export const NAMESPACE_INIT = `
${PREPARE}
child=; interrupted=0; stopped=0
trap 'stopped=1; interrupted=1; [ -z "$child" ] || kill -s "$signal" -- "-$child" || kill -s "$signal" "$child"' TERM
trap 'interrupted=1' INT
${VIEW}
${JOIN}
${ENTER}
${RUN}
exit "$code"
`;

/**
 * Without a namespace: leader of the backend's process group. The warden sends the stop signal to
 * the group; init itself only takes note of it. When the program has ended, init kills what is left
 * of its group, and so itself. There is no view of the files to make.
 */
export const GROUP_INIT = `
${PREPARE}
interrupted=0; stopped=0
trap 'stopped=1; interrupted=1' "$signal"
while [ "$1" != -- ]; do shift; done
shift
${JOIN}
${ENTER}
${RUN}
kill -s KILL 0
`;
