import { describe, expect, test } from 'vitest';
import { boundedLabel, createMetrics } from './metrics.ts';

describe('metrics', () => {
  test('a label that callers choose has a bounded number of values: the rest is counted together', () => {
    const label = boundedLabel(2, 'other');

    expect(['a', 'b', 'c', 'a', 'd', 'b'].map(label)).toEqual([
      'a',
      'b',
      'other',
      'a',
      'other',
      'b',
    ]);
  });

  test('a duration and its double are told apart: statements from 0.1 ms on, handovers from 1 ms on', async () => {
    const { observer, registry } = createMetrics();
    for (const durationMs of [0.15, 0.3]) observer.statement('grant', durationMs);
    for (const durationMs of [3, 6]) observer.handedOver('lease', durationMs);

    const text = await registry.metrics();

    expect(text).toContain('leasehold_statement_ms_bucket{le="0.2",kind="grant"} 1');
    expect(text).toContain('leasehold_statement_ms_bucket{le="0.5",kind="grant"} 2');
    expect(text).toContain('leasehold_handover_ms_bucket{le="5",face="lease"} 1');
    expect(text).toContain('leasehold_handover_ms_bucket{le="10",face="lease"} 2');
  });
});
