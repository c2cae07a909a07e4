import { deathText, type Death } from '@leasehold/service-kit/supervision';
import type { CliContext } from '../cli.ts';
import { refusal } from '../failures.ts';
import { printable, type Style } from '../output/text.ts';
import type { ChildHooks } from './supervised-child.ts';

/** What `leasehold up` says while it works. */
export interface Progress {
  /** Runs a step and says how it went: what is being done, then what was done. */
  step<Result>(
    doing: string,
    work: () => Promise<Result>,
    done: (result: Result) => string,
  ): Promise<Result>;
  /** Says something that people should see at any time. */
  say(text: string): void;
  warn(text: string): void;
}

/**
 * Progress for people. At a terminal the line of a running step is replaced by its result; in a
 * file there are only results.
 */
export function createProgress(context: CliContext, style: Style): Progress {
  let openLine = false;

  function print(line: string): void {
    context.stdout(`${openLine ? '\r\u001b[K' : ''}${line}\n`);
    openLine = false;
  }

  return {
    async step(doing, work, done) {
      if (context.isTerminal) {
        context.stdout(`  ${style.faint('…')} ${doing}`);
        openLine = true;
      }
      try {
        const result = await work();
        print(`  ${style.good('✓')} ${done(result)}`);
        return result;
      } catch (error) {
        print(`  ${style.bad('✗')} ${doing}`);
        throw error;
      }
    },
    say: print,
    warn(text) {
      print(`  ${style.warn('!')} ${text}`);
    },
  };
}

/** Progress for programs: none. Their answer is `run.json`; warnings go to the standard error. */
export function createSilentProgress(context: CliContext): Progress {
  return {
    step: (_doing, work) => work(),
    say: () => undefined,
    warn(text) {
      context.stderr(`${JSON.stringify({ warning: text })}\n`);
    },
  };
}

/** A step that is retried each second fails each second; that is reported once in this time. */
const SAME_WARNING_MS = 30_000;
const WARNINGS_REMEMBERED_MAX = 100;

/** Reports processes that die and are started again. */
export class FailureWatch implements ChildHooks {
  /** Rejects when something has died so often that it is not started any more. */
  readonly failed: Promise<never>;
  /** Called when a process was started again. */
  onChange: () => void = () => undefined;
  readonly #progress: Progress;
  readonly #nowMs: () => number;
  readonly #saidAtMs = new Map<string, number>();
  #fail: (error: Error) => void = () => undefined;

  /** @param nowMs of a monotonic clock. */
  constructor(progress: Progress, nowMs: () => number) {
    this.#progress = progress;
    this.#nowMs = nowMs;
    this.failed = new Promise((_resolve, reject) => {
      this.#fail = reject;
    });
    // It may reject before anything waits for it.
    this.failed.catch(() => undefined);
  }

  alarm(name: string, alarm: { message: string }): void {
    const text = `${name}: ${printable(alarm.message)}`;
    this.#warn(text, text);
  }

  restarting(name: string, death: Death, inMs: number): void {
    const what = `${name} ${printable(deathText(death))}`;
    // While its disk is full it fails each time in the same way; every other death is reported.
    const sameAs = death.cause === 'disk_full' ? what : undefined;
    this.#warn(`${what}; starting it again in ${(inMs / 1_000).toFixed(1)} s`, sameAs);
  }

  restarted(name: string): void {
    this.onChange();
    this.#progress.warn(`${name} runs again`);
  }

  gaveUp(name: string, death: Death, often: { deathCount: number; windowMs: number }): void {
    const minutes = String(Math.round(often.windowMs / 60_000));
    const times = `${String(often.deathCount)} times in ${minutes} minutes`;
    const lines = death.lastLines.map((line) => `\n  ${printable(line)}`).join('');
    this.#fail(
      refusal(
        'up.died',
        `The ${name} died ${times}, so everything was stopped. ` +
          `The last time it ${printable(deathText({ ...death, lastLines: [] }))}.${lines}`,
        'The logs folder of the home has more.',
      ),
    );
  }

  /** A warning about a lasting state: it is repeated only once in a while. */
  state(text: string): void {
    this.#warn(text, text);
  }

  #warn(text: string, sameAs: string | undefined): void {
    if (sameAs !== undefined && this.#wasSaid(sameAs)) return;
    this.#progress.warn(text);
  }

  #wasSaid(text: string): boolean {
    const nowMs = this.#nowMs();
    if (nowMs - (this.#saidAtMs.get(text) ?? -Infinity) < SAME_WARNING_MS) return true;
    if (this.#saidAtMs.size >= WARNINGS_REMEMBERED_MAX) this.#saidAtMs.clear();
    this.#saidAtMs.set(text, nowMs);
    return false;
  }
}

/** What an error says, as it may be shown in a terminal. */
export function messageOf(error: unknown): string {
  return printable(error instanceof Error ? error.message : String(error));
}
