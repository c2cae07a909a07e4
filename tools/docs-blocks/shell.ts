import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';

export interface Said {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** One shell for all commands of a page: what one of them sets, the next ones see. */
export interface Shell {
  run(command: string): Promise<Said>;
  close(): Promise<void>;
}

/** How commands of a page run here: npx without npm, and a curl that fails when the answer does. */
const PRELUDE = `
npx() { npm_command=exec "$NODE" "$REPOSITORY/apps/cli/bin/$1.mjs" "\${@:2}" < /dev/null; }
curl() { command curl --silent --show-error --fail-with-body --max-time 20 "$@"; }
`;

/** Starts a shell in a folder. The caller that starts it closes it. */
export function openShell(cwd: string, env: Readonly<Record<string, string>>): Shell {
  const child = spawn('bash', ['--noprofile', '--norc'], {
    cwd,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const printed = { stdout: '', stderr: '' };
  const readers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const) {
    child[name].setEncoding('utf8').on('data', (text: string) => {
      printed[name] += text;
      for (const read of [...readers]) read();
    });
  }
  const ended = once(child, 'exit').then(() => {
    for (const read of [...readers]) read();
  });
  child.stdin.write(PRELUDE);

  return {
    async run(command) {
      const mark = randomUUID();
      printed.stdout = '';
      printed.stderr = '';
      child.stdin.write(
        `${command}\n{ printf '%s %d\\n' ${mark} $?; printf '%s\\n' ${mark} >&2; }\n`,
      );
      const end = new RegExp(`${mark} (?<code>\\d+)\\n`, 'u');
      return new Promise((resolve, reject) => {
        const read = (): void => {
          const found = end.exec(printed.stdout);
          const isOver = found !== null && printed.stderr.includes(mark);
          if (!isOver && child.exitCode === null && child.signalCode === null) return;
          readers.delete(read);
          if (!isOver) {
            reject(new Error(`the shell ended in: ${command}`));
            return;
          }
          resolve({
            exitCode: Number(found.groups?.['code']),
            stdout: printed.stdout.slice(0, found.index),
            stderr: printed.stderr.slice(0, printed.stderr.indexOf(mark)),
          });
        };
        readers.add(read);
        read();
      });
    },
    async close() {
      child.stdin.end();
      child.kill();
      await ended;
    },
  };
}
