/** All runs of a folder as one page of HTML without scripts. */
import { escaped } from './escaped.ts';
import { kindOf, worstOf, type FaultFigures, type RunFigures } from './figures.ts';
import { INVARIANTS } from './judged.ts';
import { timelineOf } from './timeline.ts';

/** A run, and what started it. */
export interface RunReport {
  readonly command: string;
  readonly startedAt: string;
  readonly commit: string;
  readonly figures: RunFigures;
}

const STYLE = `
  :root { color-scheme: light; }
  body { font: 15px/1.5 system-ui, sans-serif; color: #212529; margin: 2rem auto; max-width: 74rem; padding: 0 1rem; }
  h1 { margin-bottom: 0; } h2 { margin: 2.5rem 0 .5rem; } h3 { margin: 1.5rem 0 .3rem; font-size: 1rem; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .2rem .45rem; border-bottom: 1px solid #dee2e6; }
  td:nth-child(n+2) { white-space: nowrap; } th { background: #f1f3f5; }
  .met { color: #1e6b30; font-weight: 600; } .broken { color: #b42318; font-weight: 600; stroke: #b42318; }
  .wide { overflow-x: auto; } svg { max-width: 100%; height: auto; } svg text { font-size: 11px; fill: #495057; }
  .lasts { fill: #e8590c; } .felt { fill: #ffd8a8; } .replies { fill: none; stroke: #1971c2; stroke-width: 1.5; }
`;

export function pageOf(runs: readonly RunReport[]): string {
  const sum = (of: (figures: RunFigures) => number): number =>
    runs.reduce((total, { figures }) => total + of(figures), 0);
  const violationsCount = sum(({ violations }) => violations.length);
  const faults = runs.flatMap(({ figures }) => figures.faults);
  const counts = `${String(runs.length)} runs of ${sum(({ lengthS }) => lengthS).toFixed(0)} s together, ${String(sum((one) => one.operationsCount))} operations (${String(sum((one) => one.unknownCount))} of unknown outcome), ${String(sum((one) => one.eventsCount))} events, ${String(faults.length)} faults`;
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Leasehold under faults</title>
<style>${STYLE}</style>
<h1>Leasehold under faults</h1>
<p>${counts}; <span class="${violationsCount === 0 ? 'met' : 'broken'}">${String(violationsCount)} violations</span>.</p>
<h2>Faults and recovery</h2>
<p>From the end of a fault, or of the last one that disturbed the same, until everything that it reaches works again.</p>
${recoveryTable(faults)}
<h2>Faults by invariant</h2>
<p>How often each invariant was judged while a fault lasted and was felt. F5 and F6, clocks that are wrong, and F16, releases that race renewals, happen all the time.</p>
<div class="wide">${invariantTable(runs, faults)}</div>
<h2>Runs</h2>
${runs.map(runSection).join('\n')}
</html>
`;
}

function grouped(faults: readonly FaultFigures[]): [string, FaultFigures[]][] {
  const kinds = [...new Set(faults.map(kindOf))].sort();
  return kinds.map((kind) => [kind, faults.filter((fault) => kindOf(fault) === kind)]);
}

function recoveryTable(faults: readonly FaultFigures[]): string {
  const rows = grouped(faults).map(([kind, same]) => {
    const recoveries = same.map(({ recoveryMs }) => recoveryMs);
    const cells = [kind, String(same.length), worstOf(recoveries)];
    return `<tr>${cells.map((cell) => `<td>${escaped(cell)}</td>`).join('')}</tr>`;
  });
  return table(['fault', 'times', 'recovery'], rows);
}

function invariantTable(runs: readonly RunReport[], faults: readonly FaultFigures[]): string {
  const rowOf = (name: string, same: readonly Pick<FaultFigures, 'judged'>[]): string => {
    const sums = INVARIANTS.map((one) =>
      same.reduce((total, { judged }) => total + judged[one], 0),
    );
    return `<tr><td>${escaped(name)}</td>${sums.map((sum) => `<td>${String(sum)}</td>`).join('')}</tr>`;
  };
  const broken = INVARIANTS.map((invariant) => {
    const count = runs
      .flatMap(({ figures }) => figures.violations)
      .filter((violation) => violation.invariant === invariant).length;
    return `<td class="${count === 0 ? 'met' : 'broken'}">${String(count)}</td>`;
  });
  const rows = grouped(faults).map(([kind, same]) => rowOf(kind, same));
  const all = rowOf(
    'whole runs',
    runs.map(({ figures }) => figures),
  );
  const last = `<tr><td>violations</td>${broken.join('')}</tr>`;
  return table(['fault', ...INVARIANTS], [...rows, all, last]);
}

function runSection({ command, startedAt, commit, figures }: RunReport): string {
  const broken = figures.violations.map(
    ({ invariant, atS, text }) =>
      `<li class="broken">${escaped(`${invariant} at ${atS.toFixed(1)} s: ${text}`)}</li>`,
  );
  return `<h3><code>${escaped(command)}</code></h3>
<p>${escaped(startedAt)}, commit ${escaped(commit)}: ${String(figures.operationsCount)} operations, ${String(figures.faults.length)} faults, ${String(figures.violations.length)} violations</p>
<ul>${broken.join('')}</ul>
${timelineOf(figures)}`;
}

function table(head: readonly string[], rows: readonly string[]): string {
  const cells = head.map((cell) => `<th scope="col">${escaped(cell)}</th>`).join('');
  return `<table><thead><tr>${cells}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}
