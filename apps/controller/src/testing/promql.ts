/** What a query of Prometheus reads. */
import { parser } from '@prometheus-io/lezer-promql';

/** A metric of a query, with the labels that it is selected, grouped or joined by. */
export interface Used {
  readonly metrics: readonly string[];
  readonly labels: readonly string[];
  /** Values that a label must have. */
  readonly values: readonly { readonly label: string; readonly value: string }[];
}

/** @throws {Error} for a text that is no PromQL. */
export function usedBy(query: string): Used {
  const metrics = new Set<string>();
  const labels = new Set<string>();
  const values: { label: string; value: string }[] = [];
  let label = '';
  parser.parse(query).iterate({
    enter({ name, from, to, type, node }) {
      const text = query.slice(from, to);
      if (type.isError) throw new Error(`no PromQL at ${String(from)}: ${query}`);
      if (name === 'Identifier' && node.parent?.name === 'VectorSelector') metrics.add(text);
      if (name === 'LabelName') {
        labels.add(text);
        label = text;
      }
      if (name === 'StringLiteral' && node.parent?.name.endsWith('LabelMatcher') === true) {
        values.push({ label, value: text.slice(1, -1) });
      }
    },
  });
  return { metrics: [...metrics], labels: [...labels], values };
}
