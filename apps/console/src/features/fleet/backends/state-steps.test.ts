import { describe, expect, test } from 'vitest';
import type { BackendState } from './backend-texts.ts';
import { stateSteps } from './state-steps.ts';

function state(id: string, status: BackendState['status'], at: string): BackendState {
  return {
    id,
    backendId: 'b-1',
    status,
    reason: null,
    address: null,
    exitCode: null,
    detail: null,
    at: `2026-11-21T10:00:${at}Z`,
  };
}

const NOW_MS = Date.parse('2026-11-21T10:01:00.000Z');
const RUNNING = [state('1', 'scheduled', '00.000'), state('2', 'ready', '01.250')];

describe('stateSteps', () => {
  test('each state lasts until the next, and the last until now', () => {
    expect(
      stateSteps(RUNNING, NOW_MS).map(({ durationMs, isPresent }) => [durationMs, isPresent]),
    ).toEqual([
      [1_250, false],
      [58_750, true],
    ]);
  });

  test('gives the final state no duration, and does not mark it as present', () => {
    const steps = stateSteps([...RUNNING, state('3', 'terminated', '09.250')], NOW_MS);

    expect(steps.at(-1)).toMatchObject({ durationMs: null, isPresent: false });
    expect(steps[1]?.durationMs).toBe(8_000);
  });

  test('never gives a negative duration, even if the page’s time is older than the state', () => {
    expect(stateSteps(RUNNING, Date.parse('2026-11-21T10:00:01.000Z')).at(-1)?.durationMs).toBe(0);
  });
});
