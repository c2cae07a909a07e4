import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

export type WitnessMode = 'gentle' | 'stubborn' | 'family';

/** Makes the file that all witnesses of a stage share. */
export function openTestimony(folder: string): string {
  const file = path.join(folder, 'testimony', 'lines.jsonl');
  mkdirSync(path.dirname(file));
  writeFileSync(file, '');
  // Programs run as users of their own, each of which writes there.
  chmodSync(file, 0o666);
  return file;
}

/** A witness as a drone's program. In a bundle, witness.mjs is beside it. */
export function witness(testimonyFile: string, mode: WitnessMode): unknown {
  return {
    command: process.execPath,
    args: [path.join(import.meta.dirname, 'witness.mjs'), testimonyFile, mode],
    readiness: { type: 'http', intervalMs: 50 },
  };
}

/** What a backend wrote about itself; see witness.mjs. */
export interface TestimonyLine {
  readonly kind: 'start' | 'beat' | 'stop';
  readonly key: string;
  readonly token: string;
  readonly backend: string;
  /** Its PID namespace, and its PID there. */
  readonly pid: string;
  readonly atMs: number;
}

/** All that one backend wrote, its descendants included. */
export interface Life {
  readonly key: string;
  readonly backend: string;
  readonly token: bigint;
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  /** When it was first asked to stop. */
  readonly askedToStopAtMs: number | undefined;
  readonly pids: ReadonlySet<string>;
}

/** The lines of a file that witnesses share, in the order in which they were written. */
export function readTestimony(file: string): TestimonyLine[] {
  const text = readFileSync(file, 'utf8');
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as TestimonyLine);
}

/** The lives of the backends of a key, in the order in which they began. */
export function livesOf(lines: readonly TestimonyLine[], key: string): Life[] {
  const byBackend = new Map<string, TestimonyLine[]>();
  for (const line of lines) {
    if (line.key !== key) continue;
    const own = byBackend.get(line.backend);
    if (own === undefined) byBackend.set(line.backend, [line]);
    else own.push(line);
  }
  return [...byBackend.values()].map(lifeOf).sort((a, b) => a.firstAtMs - b.firstAtMs);
}

function lifeOf(lines: readonly TestimonyLine[]): Life {
  const times = lines.map((line) => line.atMs);
  const [first] = lines;
  if (first === undefined) throw new Error('a life has at least one line');
  return {
    key: first.key,
    backend: first.backend,
    token: BigInt(first.token),
    firstAtMs: Math.min(...times),
    lastAtMs: Math.max(...times),
    askedToStopAtMs: lines.find((line) => line.kind === 'stop')?.atMs,
    pids: new Set(lines.map((line) => line.pid)),
  };
}

/** What is wrong with the lives of one key's backends; empty when they followed each other. */
export function overlapsOf(lives: readonly Life[]): string[] {
  return lives.slice(1).flatMap((life, index) => {
    const former = lives[index] as Life;
    const problems: string[] = [];
    if (former.lastAtMs >= life.firstAtMs) {
      const overlapMs = Math.round(former.lastAtMs - life.firstAtMs);
      problems.push(
        `${former.backend} wrote ${String(overlapMs)} ms after ${life.backend} had begun`,
      );
    }
    if (life.token <= former.token) {
      problems.push(
        `${life.backend} has token ${String(life.token)} after ${String(former.token)}`,
      );
    }
    return problems;
  });
}
