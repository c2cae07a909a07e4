/** The phases of a suite: two at once at most, because more would only make each other wait. */

const AT_ONCE_MAX = 2;

/**
 * Runs each phase as soon as those that it needs have ended and there is room, the first ones first, and prints a
 * line for each.
 * @param phases `{ name, needs, run }`; `needs` are names, and `run` resolves to the outcome: `{ passed, failed }`
 *   and what there is besides.
 * @returns the outcomes, in the order in which the phases ended.
 */
export async function runPhases(phases) {
  const waiting = [...phases];
  const running = new Set();
  const ended = new Set();
  const outcomes = [];
  const isReady = ({ needs = [] }) => needs.every((name) => ended.has(name));

  const begin = async ({ name, run }) => {
    const startMs = performance.now();
    const outcome = await run();
    ended.add(name);
    outcomes.push(outcome);
    printPhase(name, { ...outcome, tookMs: performance.now() - startMs });
  };

  while (waiting.length > 0 || running.size > 0) {
    const next = running.size < AT_ONCE_MAX ? waiting.findIndex(isReady) : -1;
    if (next === -1) {
      await Promise.race(running);
      continue;
    }
    const [phase] = waiting.splice(next, 1);
    const work = begin(phase).finally(() => running.delete(work));
    running.add(work);
  }
  return outcomes;
}

function printPhase(name, { passed, failed, tookMs }) {
  const tests = passed + failed > 0 ? `${String(passed)} passed` : '';
  const state = failed > 0 ? `${String(failed)} FAILED` : 'ok';
  console.log(
    `${name.padEnd(16)} ${secondsOf(tookMs)}  ${[tests, state].filter(Boolean).join(', ')}`,
  );
}

export function secondsOf(ms) {
  return `${(ms / 1_000).toFixed(1).padStart(7)} s`;
}
