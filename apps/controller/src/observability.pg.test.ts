/** What `deploy/observability` asks Prometheus for exists, and what it links to does too. */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { DRONE_STATUSES, FACES, FAIR_USE_LIMITS } from '@leasehold/keys-core';
import { load } from 'js-yaml';
import { Registry } from 'prom-client';
import { beforeAll, describe, expect, test } from 'vitest';
import { addPeerGauges, createPeerMetrics, describedMetrics } from './metrics.ts';
import { usedBy } from './testing/promql.ts';
import { startTestController } from './testing/test-controller.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
/** Prometheus gives these to what it scrapes. */
const OF_PROMETHEUS = { metrics: ['up'], labels: ['job', 'instance'] };
/** What the dashboard's variables stand for. */
const VARIABLES: Readonly<Record<string, string>> = {
  __rate_interval: '5m',
  __range: '1h',
  job: 'a',
};
/** Labels with values that are known before anything happens. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  status: DRONE_STATUSES,
  face: FACES,
  limit: [...FAIR_USE_LIMITS, 'load'],
};

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

interface Panel {
  readonly title: string;
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
}

let alerts: readonly Alert[];
let panels: readonly Panel[];

beforeAll(async () => {
  const folder = path.join(ROOT, 'deploy/observability');
  const rules = load(await readFile(path.join(folder, 'alerts.yaml'), 'utf8')) as {
    groups: readonly { rules: readonly Alert[] }[];
  };
  alerts = rules.groups.flatMap((group) => group.rules);
  const dashboard = JSON.parse(
    await readFile(path.join(folder, 'grafana-dashboard.json'), 'utf8'),
  ) as { panels: readonly Panel[] };
  panels = dashboard.panels;
});

/** The labels of every metric, by the names under which Prometheus keeps it. */
async function knownMetrics(): Promise<Map<string, ReadonlySet<string>>> {
  const { controller } = await startTestController();
  // Those of a controller that knows other datacenters.
  const ofPeers = new Registry();
  createPeerMetrics(ofPeers);
  addPeerGauges(ofPeers, { peers: [], isReachable: () => true, isStoreReachable: () => true });
  const known = new Map<string, ReadonlySet<string>>(
    OF_PROMETHEUS.metrics.map((name) => [name, new Set<string>()]),
  );
  for (const registry of [controller.metrics, ofPeers]) {
    for (const metric of registry.getMetricsAsArray()) {
      const labels = 'labelNames' in metric ? (metric.labelNames as readonly string[]) : [];
      known.set(metric.name, new Set(labels));
      if (!('buckets' in metric)) continue;
      known.set(`${metric.name}_bucket`, new Set([...labels, 'le']));
      known.set(`${metric.name}_sum`, new Set(labels));
      known.set(`${metric.name}_count`, new Set(labels));
    }
  }
  return known;
}

function problemsOf(query: string, known: Map<string, ReadonlySet<string>>): string[] {
  const expanded = query.replaceAll(/\$(\w+)/gu, (_all, name: string) => VARIABLES[name] ?? '?');
  const { metrics, labels, values } = usedBy(expanded);
  const all = new Set(metrics.flatMap((name) => [...(known.get(name) ?? [])]));
  const wrong = (label: string, value: string): boolean =>
    value.split('|').some((one) => VALUES[label]?.includes(one) === false);
  return [
    ...(metrics.length === 0 ? ['no metric'] : []),
    ...metrics.filter((name) => !known.has(name)).map((name) => `no metric ${name}`),
    ...labels
      .filter((label) => !all.has(label) && !OF_PROMETHEUS.labels.includes(label))
      .map((label) => `no label ${label}`),
    ...values
      .filter(({ label, value }) => wrong(label, value))
      .map(({ label, value }) => `no value ${label}="${value}"`),
  ];
}

test('the metrics that controllers export are all in the documentation, with their labels, and no others', async () => {
  const known = await knownMetrics();
  const described = describedMetrics().map(({ name, labels }) => [name, [...labels].sort()]);

  const ofHistogram = /_(?:bucket|sum|count)$/u;
  const exported = [...known]
    .filter(([name]) => name.startsWith('leasehold_') && !ofHistogram.test(name))
    .map(([name, labels]) => [name, [...labels].sort()] as const)
    .sort(([one], [other]) => (one < other ? -1 : 1));

  expect(described.length).toBeGreaterThan(25);
  expect(described).toEqual(exported);
});

/** What a heading is called in an address, as GitHub does it. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-');
}

describe('alerts and dashboard', () => {
  test('ask only for metrics and labels that controllers export', async () => {
    const known = await knownMetrics();
    // Those of gateways: apps/gateway/src/metrics.test.ts.
    const asked = [
      ...alerts.map(({ alert, expr }) => ({ where: alert, expr })),
      ...panels.flatMap(({ title, targets = [] }) =>
        targets.map(({ expr }) => ({ where: title, expr })),
      ),
    ].filter(({ expr }) => !expr.includes('leasehold_gateway_'));

    const problems = asked.flatMap(({ where, expr }) =>
      problemsOf(expr, known).map((problem) => `${where}: ${problem}`),
    );

    expect(asked.length).toBeGreaterThan(40);
    expect(problems).toEqual([]);
  });

  test('show every metric of Leasehold that counts or measures something', async () => {
    const known = await knownMetrics();
    const shown = panels
      .flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
      .concat(alerts.map(({ expr }) => expr))
      .join('\n');

    const ours = [...known.keys()].filter((name) => /^leasehold_.*(?<!_sum|_count)$/u.test(name));
    const missing = ours.filter((name) => !shown.includes(name.replace(/_bucket$/u, '')));

    expect(missing).toEqual([]);
  });

  test('name in their legends only what their queries keep', () => {
    const problems = panels.flatMap(({ title, targets = [] }) =>
      targets.flatMap(({ expr, legendFormat }) =>
        [...legendFormat.matchAll(/\{\{(\w+)\}\}/gu)]
          .map(([, label]) => label ?? '')
          .filter((label) => !expr.includes(label) && label !== 'instance')
          .map((label) => `${title}: ${label}`),
      ),
    );

    expect(problems).toEqual([]);
  });

  test('link to a section of the runbook that exists', async () => {
    const runbook = await readFile(path.join(ROOT, 'docs/runbook.md'), 'utf8');
    const anchors = [...runbook.matchAll(/^#+ (.*)$/gmu)].map(([, title]) => anchorOf(title ?? ''));

    const problems = alerts.filter(
      ({ annotations }) =>
        !anchors.some((anchor) => annotations.runbook_url === `docs/runbook.md#${anchor}`),
    );

    expect(problems.map(({ alert, annotations }) => [alert, annotations.runbook_url])).toEqual([]);
    expect(new Set(alerts.map(({ labels }) => labels.severity))).toEqual(
      new Set(['critical', 'warning', 'info']),
    );
  });
});
