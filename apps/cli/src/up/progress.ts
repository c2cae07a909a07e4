import type { CliContext } from '../context.ts';
import type { Style } from '../output/style.ts';

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
