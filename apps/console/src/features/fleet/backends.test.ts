import { describe, expect, test } from 'vitest';
import { parseSearch } from '~/lib/search.ts';
import {
  BACKEND_FIELDS,
  backendListInput,
  type BackendState,
  kindOf,
  stateSteps,
  stoppedText,
} from './backends.tsx';

test.each([
  [null, 'a command of the machine'],
  ['registry.example/room:1', 'a container of registry.example/room:1'],
])('what a backend with the image %s runs is told in words', (image, text) => {
  expect(kindOf({ image })).toBe(text);
});

test.each([
  ['gone', 'It had ended before: nothing was stopped.'],
  ['terminating', 'Its drone has been told to stop it by force.'],
] as const)('a stop by force that was answered with %s is told in words', (outcome, text) => {
  expect(stoppedText(outcome, true)).toBe(text);
});

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

function inputOf(q: string, more: { status?: string; live?: boolean; after?: string } = {}) {
  const { status = null, live = false, after = null } = more;
  return backendListInput({ search: parseSearch(q, BACKEND_FIELDS), status, live, after });
}

describe('backendListInput', () => {
  test('asks for everything, newest first, without a search', () => {
    expect(inputOf('')).toEqual({ limit: 100 });
  });

  test('takes a bare word for the whole name of a key', () => {
    expect(inputOf('standup-web')).toEqual({ limit: 100, name: 'standup-web' });
    expect(inputOf('key:"two words" namespace:rooms.eu')).toEqual({
      limit: 100,
      name: 'two words',
      namespace: 'rooms.eu',
    });
  });

  test('filters by drone and program, and leaves out an unknown status', () => {
    expect(inputOf('drone:d-1 program:room', { status: 'asleep', live: true })).toEqual({
      limit: 100,
      droneId: 'd-1',
      program: 'room',
      live: true,
    });
    expect(inputOf('', { status: 'ready', after: 'c' })).toEqual({
      limit: 100,
      status: 'ready',
      cursor: 'c',
    });
  });
});
