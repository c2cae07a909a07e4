import type { Result } from './carry-out.ts';
import type { Latencies } from './healthy.ts';

const COUNT = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const HEAD = ['attack', 'tried', 'refused', 'p50', 'p99', 'worst', 'memory', 'log', 'verdict'];

/** One line for each attack, the idle callers first; broken promises are below. */
export function tableOf(idle: Latencies, results: readonly Result[]): string {
  const lines = [
    HEAD,
    ['(none)', '', '', ...timesOf(idle), '', '', ''],
    ...results.map(({ attack, yield: seen, latencies, memory, logBytes, broken }) => [
      attack.name,
      COUNT.format(seen.tried),
      refusalsOf(seen.refused),
      ...timesOf(latencies),
      `${COUNT.format(memory.before)} → ${COUNT.format(memory.peak)} → ${COUNT.format(memory.after)} MB`,
      `${COUNT.format(logBytes / 1_024)} KB`,
      broken.length === 0 ? 'held' : 'BROKEN',
    ]),
  ];
  const widths = HEAD.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  const table = lines.map((line) =>
    line
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  );
  const broken = results.flatMap(({ attack, broken: problems }) =>
    problems.map((problem) => `${attack.name}: ${problem}`),
  );
  return [...table, ...broken].join('\n');
}

function timesOf({ p50, p99, max }: Latencies): string[] {
  return [p50, p99, max].map((ms) => `${ms.toFixed(1)} ms`);
}

function refusalsOf(refused: Readonly<Record<string, number>>): string {
  return Object.entries(refused)
    .map(([code, count]) => `${code} ${COUNT.format(count)}`)
    .join(', ');
}
