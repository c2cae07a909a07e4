/**
 * The first process of a backend: a few lines of POSIX shell between the warden and the program.
 *
 * It reports over file descriptor 3 and is let go over file descriptor 4:
 *
 *   init ─"ready"─▶ warden ─"go"─▶ init starts the program … program ends: init ─"exit N"─▶ warden
 *
 * - The parent-death signals are armed before `ready`. If the warden dies earlier, init reads the
 *   end of file instead of `go`, and the program never starts.
 * - Between `ready` and `go` the warden notes the namespace and checks once more that there is time.
 * - Shells start a background job with SIGINT and SIGQUIT ignored; `env --default-signal` mends
 *   that, where it exists, so that a program may be stopped with either.
 * - A signal that comes before the program runs ends init (nothing has started), and one that comes
 *   during `wait` interrupts it: hence the loop. Whether the program is gone by then is not asked: the
 *   shell may have reaped it already, and only `wait` has its exit code.
 * - `wait` reaps orphans of the namespace too.
 */

/**
 * As PID 1 of its own namespace. A PID 1 without a handler ignores every signal, so the program is
 * not PID 1: init is, and turns SIGTERM into the stop signal of the program's own session. When
 * init ends, the kernel kills everything that is left in the namespace.
 *
 * Arguments: the stop signal, then the command line that becomes the program's session.
 */
export const NAMESPACE_INIT = `
exec 5>&2 2>/dev/null
signal=$1; shift
child=; interrupted=0; stopped=0
trap 'stopped=1; interrupted=1; [ -z "$child" ] || kill -s "$signal" -- "-$child" || kill -s "$signal" "$child"' TERM
echo ready >&3
read -r go <&4 || exit 125
[ "$stopped" = 0 ] || exit 143
"$@" 2>&5 3>&- 4>&- 5>&- &
child=$!
[ "$stopped" = 0 ] || kill -s "$signal" "$child"
while :; do
  interrupted=0
  wait "$child"; code=$?
  [ "$interrupted" = 1 ] || break
done
echo "exit $code" >&3
exit "$code"
`;

/**
 * Without a namespace: leader of the backend's process group. The warden sends the stop signal to
 * the group; init itself only takes note of it. When the program has ended, init kills what is left
 * of its group, and so itself.
 *
 * Arguments: the stop signal, then the command line of the program.
 */
export const GROUP_INIT = `
exec 5>&2 2>/dev/null
signal=$1; shift
interrupted=0; stopped=0
trap 'stopped=1; interrupted=1' "$signal"
echo ready >&3
read -r go <&4 || exit 125
[ "$stopped" = 0 ] || exit 143
"$@" 2>&5 3>&- 4>&- 5>&- &
child=$!
[ "$stopped" = 0 ] || kill -s "$signal" "$child"
while :; do
  interrupted=0
  wait "$child"; code=$?
  [ "$interrupted" = 1 ] || break
done
echo "exit $code" >&3
kill -s KILL 0
`;
