/** What the programs of these tests say, as JSON lines on their output, and how it is read. */
import type { TestProcess } from '@leasehold/testing';

/** One grant, as its holder has it. */
export interface Grant {
  readonly key: string;
  readonly leaseId: string;
  readonly token: string;
}

/** `atMs` is CLOCK_MONOTONIC, the same in all processes of a machine. */
export type Word = Said & { readonly atMs: number };

export type Said =
  /** Granted, and handed out by the client library. */
  | (Grant & { readonly kind: 'held' })
  /** About to be given back: nothing is done on it from here on. */
  | (Grant & { readonly kind: 'letting_go' })
  /** What became of a release. */
  | (Grant & { readonly kind: 'released'; readonly report: string })
  /**
   * Its signal has aborted. `lateMs`: after the last moment at which the lease had said that it might
   * be acted on; `stallMs`: for how long the process had done nothing before.
   */
  | (Grant & {
      readonly kind: 'lost';
      readonly reason: string;
      readonly lateMs: number;
      readonly stallMs: number;
    })
  /** An attempt came to nothing. */
  | { readonly kind: 'not_held'; readonly key: string; readonly code: string }
  /** Has read and not yet written: who is paused now does its harm on waking. */
  | (Grant & { readonly kind: 'window'; readonly entry: string })
  /** An update was acknowledged, or was refused. */
  | { readonly kind: 'written'; readonly entry: string; readonly token: string }
  | { readonly kind: 'refused'; readonly entry: string; readonly why: string };

type Kind = Said['kind'];
type WordOf<K extends Kind> = Extract<Word, { readonly kind: K }>;

interface Reading {
  /** How much of the output has been read. */
  length: number;
  readonly words: Word[];
}

const readings = new WeakMap<TestProcess, Reading>();

/** All that a process has said so far, in order. */
export function wordsOf(process: TestProcess): readonly Word[] {
  let reading = readings.get(process);
  if (reading === undefined) {
    reading = { length: 0, words: [] };
    readings.set(process, reading);
  }
  const text = process.log();
  const endOfLines = text.lastIndexOf('\n') + 1;
  if (endOfLines > reading.length) {
    const fresh = text.slice(reading.length, endOfLines).split('\n');
    reading.length = endOfLines;
    for (const line of fresh) {
      if (line.startsWith('{"kind":')) reading.words.push(JSON.parse(line) as Word);
    }
  }
  return reading.words;
}

/** The words of some kinds of several processes, in order of time. */
export function allWords<K extends Kind>(
  processes: readonly TestProcess[],
  ...kinds: readonly K[]
): WordOf<K>[] {
  const isWanted = (word: Word): word is WordOf<K> =>
    (kinds as readonly Kind[]).includes(word.kind);
  return processes
    .flatMap((process) => wordsOf(process).filter(isWanted))
    .sort((a, b) => a.atMs - b.atMs);
}

export function lastWordOf(process: TestProcess): Word | undefined {
  return wordsOf(process).at(-1);
}
