/** Every metric that a controller exports, with its labels. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { describedMetrics } from '../../../controller/src/metrics.ts';
import { ROOT } from '../root.ts';
import { tablesOf } from './markdown-tables.ts';

/** The page, with what the runbook says about when to worry. */
export function metricsPage(): string {
  const worries = worryTexts();
  const rows = describedMetrics().map(({ name, type, help, labels }) => {
    const label = labels.map((one) => `\`${one}\``).join(', ');
    const worry = (worries.get(name) ?? []).join('; ');
    return `## \`${name}\`

${help}

| | |
| - | - |
| kind | ${type} |
| labels | ${label === '' ? 'none' : label} |
${worry === '' ? '' : `| worry when | ${worry} |\n`}`;
  });
  return `# Metrics

What each controller serves at \`/metrics\`, for tokens of the role \`viewer\` that are not limited to namespaces, beside the
metrics of its Node process. Histograms have \`_bucket\`, \`_sum\` and \`_count\`. [Observability](/operate/observability) has
alerts and a dashboard over them.

${rows.join('\n')}`;
}

/** By metric. The runbook names some of them with a label. */
function worryTexts(): Map<string, string[]> {
  const runbook = readFileSync(path.join(ROOT, 'docs/runbook.md'), 'utf8');
  const texts = new Map<string, string[]>();
  const table = tablesOf(runbook).find(({ head }) => head[0] === 'metric');
  for (const [metric = '', worry = ''] of table?.rows ?? []) {
    const [, name = '', label = ''] = /`(\w+)(\{[^}]*\})?`/u.exec(metric) ?? [];
    const text = label === '' ? worry : `\`${label.slice(1, -1)}\`: ${worry}`;
    texts.set(name, [...(texts.get(name) ?? []), unlinked(text)]);
  }
  return texts;
}

/** Its links are relative to the runbook. */
function unlinked(text: string): string {
  return text.replaceAll(/\[([^\]]*)\]\([^)]*\)/gu, '$1');
}
