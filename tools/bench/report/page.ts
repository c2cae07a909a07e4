/** The report as one page of HTML without scripts. */
import { cellsOf, HEAD } from '../rig/figures.ts';
import { chartsOf } from './charts.ts';
import type { Report, Section } from './report-types.ts';

const STYLE = `
  :root { color-scheme: light; }
  body { font: 15px/1.5 system-ui, sans-serif; color: #212529; margin: 2rem auto; max-width: 74rem; padding: 0 1rem; }
  h1 { margin-bottom: 0; } h2 { margin: 2.5rem 0 .5rem; }
  table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
  th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #dee2e6; }
  td:nth-child(n+2) { white-space: nowrap; } th { background: #f1f3f5; }
  .goal, .met { color: #1e6b30; font-weight: 600; } .missed { color: #b42318; font-weight: 600; }
  .charts { display: flex; flex-wrap: wrap; gap: 1rem; } figure { margin: 0; } svg { max-width: 100%; height: auto; }
  dl { display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dt { color: #495057; } dd { margin: 0; }
  .warning { background: #fff3bf; padding: .5rem 1rem; }
`;

export function pageOf(report: Report): string {
  const { machine, durability } = report;
  const facts: [string, string][] = [
    ['Commit', report.commit],
    ['Command', report.command],
    ['Begun', `${report.startedAt}, took ${report.tookS.toFixed(0)} s`],
    [
      'Machine',
      `${machine.processor}, ${String(machine.coreCount)} cores, ${String(machine.memoryGb)} GB`,
    ],
    ['System', `${machine.system}, Node ${machine.node}, PostgreSQL ${machine.postgres}`],
    ...Object.entries(durability),
  ];
  const figures = report.sections.flatMap((section) => section.figures);
  const charts = chartsOf(figures).map(
    ({ title, svg }) => `<figure role="img" aria-label="${escape(title)}">${svg}</figure>`,
  );
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Leasehold benchmarks</title>
<style>${STYLE}</style>
<h1>Leasehold benchmarks</h1>
<p>${summaryOf(figures)}</p>
${report.isQuick ? '<p class="warning">A run with <code>--quick</code>: its figures mean nothing.</p>' : ''}
<dl>${facts.map(([name, value]) => `<dt>${escape(name)}</dt><dd>${escape(value)}</dd>`).join('')}</dl>
<div class="charts">${charts.join('')}</div>
${report.sections.map(tableOf).join('\n')}
</html>
`;
}

function summaryOf(figures: Section['figures']): string {
  const limited = figures.filter(({ verdict }) => verdict !== '');
  const missed = limited.filter(({ verdict }) => verdict === 'NOT MET').length;
  const goals = limited.filter(({ verdict }) => verdict === 'goal').length;
  return `${String(limited.length - missed)} of ${String(limited.length)} requirements are met, ${String(goals)} with their goal.`;
}

function tableOf({ name, figures }: Section): string {
  const rows = figures.map((figure) => {
    const cells = cellsOf(figure).map((cell) => `<td>${markOf(cell)}</td>`);
    return `<tr>${cells.join('')}</tr>`;
  });
  const head = HEAD.map((cell) => `<th scope="col">${cell}</th>`).join('');
  return `<h2 id="${name}">${name}</h2>
<table><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

function markOf(cell: string): string {
  if (cell === 'NOT MET') return '<span class="missed">NOT MET</span>';
  if (cell === 'met' || cell === 'goal') return `<span class="${cell}">${cell}</span>`;
  return escape(cell);
}

function escape(text: string): string {
  return text.replace(/[&<>"]/gu, (sign) => `&#${String(sign.charCodeAt(0))};`);
}
