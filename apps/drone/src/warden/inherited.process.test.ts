import { expect, test } from 'vitest';
import { outputOf } from '../testing/backend-output.ts';
import { testedDrone } from '../testing/tested-drone.ts';
import { until } from '../testing/wait.ts';
import { startOf, startWarden } from '../testing/warden-fixture.ts';

/** What a starter may have set up, which is its own affair. */
const STARTER = `
  exec 9</etc/passwd 47</etc/passwd 100</etc/passwd 300>/dev/null
  trap '' HUP USR1 PIPE
  umask 0777
  cd /etc
  ulimit -S -n 700
  exec "$@"`;
const AS_ROOT = process.getuid?.() === 0;
const PRIVILEGED = AS_ROOT
  ? 'renice -n -5 -p $$ >/dev/null; (echo -700 >/proc/self/oom_score_adj) 2>/dev/null;'
  : '';

const LOOK = `
  for f in /proc/self/fd/*; do echo "fd \${f##*/} $(readlink $f)"; done
  grep -E '^Sig(Blk|Ign)' /proc/self/status
  echo "umask $(umask)"; echo "folder $(pwd)"; echo "nice $(nice)"
  echo "oom $(cat /proc/self/oom_score_adj)"; env | sed 's/^/env /'
  echo done; exec sleep 600`;

test('a backend inherits nothing of what its drone was started with', async () => {
  using drone = testedDrone();
  const words = ['/bin/bash', '-c', `${PRIVILEGED}${STARTER}`, 'bash', ...drone.words];
  await using warden = await startWarden({ words }, { env: { SECRET_OF_STARTER: 'x' } });
  const { link } = await warden.connect();
  const start = startOf(LOOK, { cwd: null });

  await link.start(start);
  const output = (): string => outputOf(warden.stateDir, start.backendId);
  await until('it has looked around', () => output().includes('\ndone\n'));
  const seen = output().split('\n');

  const open = seen.filter((line) => line.startsWith('fd ')).map((line) => line.split(' ')[1]);
  // The shell has the folder itself open while it reads its names.
  expect(open.filter((descriptor) => Number(descriptor) > 3)).toEqual([]);
  expect(seen.filter((line) => line.includes('passwd'))).toEqual([]);
  expect(seen).toContain('SigBlk:\t0000000000000000');
  expect(seen).toContain('SigIgn:\t0000000000000000');
  expect(seen).toContain('umask 0077');
  expect(seen.find((line) => line.startsWith('folder '))).toMatch(/\/data\/test$/u);
  expect(seen).toContain('nice 0');
  expect(seen.filter((line) => line.startsWith('env ')).join(' ')).not.toContain('STARTER');
  if (AS_ROOT) expect(Number(/oom (-?\d+)/u.exec(seen.join('\n'))?.[1])).toBeGreaterThan(0);
});
