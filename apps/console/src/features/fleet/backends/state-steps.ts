import type { BackendState } from './backend-texts.ts';

/** One state of a backend, and for how long it was in it. */
export interface StateStep {
  readonly state: BackendState;
  /** Null for the last state of a backend that has ended: that state has no end. */
  readonly durationMs: number | null;
  /** Whether the backend is in this state now. */
  readonly isPresent: boolean;
}

/** The states in the order in which they were reported, each with its duration. Pure. */
export function stateSteps(states: readonly BackendState[], nowMs: number): StateStep[] {
  return states.map((state, index) => {
    const next = states[index + 1];
    const isLast = next === undefined;
    const isEnd = isLast && state.status === 'terminated';
    const untilMs = isLast ? nowMs : Date.parse(next.at);
    return {
      state,
      durationMs: isEnd ? null : Math.max(0, untilMs - Date.parse(state.at)),
      isPresent: isLast && !isEnd,
    };
  });
}
