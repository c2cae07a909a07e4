import { fork } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

/** A process that a measurement needs beside its own. */
export interface Child<Ready> {
  readonly pid: number;
  /** What it reported when it was ready. */
  readonly ready: Ready;
  /** Calls `fn` with each later message. */
  onMessage(fn: (message: Ready) => void): void;
  /** Sends a message, and returns the next one that the process sends. */
  ask(): Promise<unknown>;
  stop(): Promise<void>;
}

/** Where a program of this bundle is: all bundles are in one folder. */
export function bundled(name: string): string {
  return path.join(path.dirname(fileURLToPath(import.meta.url)), `${name}.mjs`);
}

/** Starts a program of this bundle and waits for its first message. */
export async function startChild<Ready>(
  name: string,
  args: readonly string[],
): Promise<Child<Ready>> {
  const child = fork(bundled(name), args, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const [message] = (await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(() => {
      throw new Error(`${name} ended before it was ready`);
    }),
  ])) as [Ready];
  return {
    pid: child.pid ?? Number.NaN,
    ready: message,
    onMessage: (fn) => child.on('message', (later) => fn(later as Ready)),
    async ask() {
      child.send({});
      const [answer] = (await once(child, 'message')) as [unknown];
      return answer;
    },
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
    },
  };
}
