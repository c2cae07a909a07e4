import { spawn } from 'node:child_process';
import path from 'node:path';
import type { Yield } from './attack.ts';

const ATTACKER = path.join(import.meta.dirname, 'attacker.mjs');
/** How much longer than its time it may take: to connect, and to count the results. */
const LATE_MS_MAX = 30_000;

export interface AttackerOptions {
  readonly name: string;
  readonly url: string;
  /** null: it has none. */
  readonly token: string | null;
  readonly attackMs: number;
}

/** Runs an attacker to its end. @throws {Error} when it does not end in time, or breaks. */
export async function startAttacker(options: AttackerOptions): Promise<Yield> {
  const child = spawn(process.execPath, [ATTACKER, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: options.attackMs + LATE_MS_MAX,
    killSignal: 'SIGKILL',
  });
  let printed = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed += text));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  if (code !== 0) throw new Error(`the attacker ${options.name} ended with ${String(code)}`);
  return { got: [], ...(JSON.parse(printed) as Omit<Yield, 'got'>) };
}
