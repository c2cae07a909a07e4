/** What documents, alerts and the dashboard say of the metrics of a gateway. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createBootClock } from '@leasehold/service-kit/boot-clock';
import { expect, test } from 'vitest';
import { createMetrics } from './metrics.ts';
import { Routes } from './routes.ts';
import { ScriptedController } from './testing/scripted-controller.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const METRIC = /leasehold_gateway_\w+/gu;

/** The metrics that a file names, without what Prometheus adds to those of histograms. */
function namedIn(file: string): Set<string> {
  const text = readFileSync(path.join(ROOT, file), 'utf8');
  const names = [...text.matchAll(METRIC)].map(([name]) => name);
  return new Set(names.map((name) => name.replace(/_(?:bucket|sum|count)$/u, '')));
}

function exported(): string[] {
  const routes = new Routes({
    clock: createBootClock(() => 0),
    link: new ScriptedController(),
    gatewayId: 'gateway-1',
    version: '0.0.0',
    bounds: { heldMax: 1, heldBytesMax: 1, holdMs: 1 },
    tokens: { revision: undefined, learn: () => Promise.resolve() },
  });
  const { registry } = createMetrics(() => 0, routes);
  const names = registry.getMetricsAsArray().map(({ name }) => name);
  return names.filter((name) => name.startsWith('leasehold_'));
}

test.each(['docs/observability.md', 'deploy/observability/grafana-dashboard.json'])(
  '%s names every metric of a gateway, and no others',
  (file) => {
    const names = exported();
    expect(names.length).toBeGreaterThan(10);
    expect([...namedIn(file)].sort()).toEqual(names.sort());
  },
);

test.each(['docs/runbook.md', 'deploy/observability/alerts.yaml'])(
  '%s names metrics of a gateway that exist',
  (file) => {
    const names = exported();
    const wrong = [...namedIn(file)].filter((name) => !names.includes(name));
    expect(namedIn(file).size).toBeGreaterThan(0);
    expect(wrong).toEqual([]);
  },
);
