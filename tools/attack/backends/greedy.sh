# A backend that takes what there is: processes, memory, files in memory, and the disk. It prints a line for each.
# What it may have at most: see `GREEDY_LIMITS` in ../stage.ts.
exec 2>/dev/null

# refused WHAT STATUS: it was refused if the last command of the attempt has failed.
refused() {
  if [ "$2" = 0 ]; then echo "{\"attack\":\"$1\",\"got\":\"all of it\"}"
  else echo "{\"attack\":\"$1\",\"refused\":\"$2\"}"; fi
}

(head -c 400000000 /dev/zero | tail >/dev/null); refused '400 MB of memory' $?
(i=0; while [ $i -lt 80 ]; do i=$((i+1)); head -c 1000000 /dev/zero >/dev/shm/$i || exit 1; done)
refused '80 MB of files in memory' $?
rm -f /dev/shm/[0-9]*
(head -c 20000000 /dev/zero >"$HOME/x"); refused 'a file of 20 MB' $?
(ulimit -n 1000000); refused 'a million open files' $?
(ulimit -c unlimited); refused 'core files' $?

# Processes last, because nothing else could be started then. To wait must not need one.
mkfifo "$HOME/wait" && exec 3<>"$HOME/wait"
(i=0; while [ $i -lt 300 ]; do i=$((i+1)); bash -c "exec -a $1 sleep 600" & done) &
read -r -t 2 -u 3
echo '{"attack":"done"}'
exec sleep 600
