import { describe, expect, test } from 'vitest';
import { acquired, EMPTY, event, fault } from '../checks/planted/fixture.ts';
import { BUSY, type Violation } from '../history.ts';
import { figuresOf, lineOf, worstOf } from './figures.ts';
import { pageOf } from './page.ts';

const OPTIONS = { seed: 7, seconds: 60, isEachOnce: false, only: ['f1'], shrinks: false };
const HISTORY = {
  ...EMPTY,
  endedAtMs: 60_000,
  events: [event('granted', '1', 10_000), event('released', '1', 11_000)],
  operations: [acquired('1', [9_000, 10_500])],
  faults: [
    fault(8_000, 9_000, { recoveredAtMs: 10_200, target: 'database: it is killed' }),
    fault(30_000, 30_400, { name: BUSY }),
  ],
};
const BROKEN: Violation = { invariant: 'I1', atMs: 10_100, text: 'two at <once>' };

describe('the report of a run', () => {
  test('counts what was judged while a fault was felt, and how long it was felt', () => {
    const figures = figuresOf(HISTORY, []);

    expect(figures.faults).toMatchObject([{ recoveryMs: 1_200, judged: { I1: 1, I13: 1 } }]);
    expect(figures).toMatchObject({ operationsCount: 1, busyMs: 400 });
    expect(figures.repliesPerS[10]).toBe(1);
  });

  test('ends with a line of figures and the command that does the same again', () => {
    const line = lineOf(OPTIONS, figuresOf(HISTORY, [BROKEN]));

    expect(line).toMatch(/^1 violations, 1 operations/u);
    expect(line).toContain('npm run faults -- --seed 7 --seconds 60 --only f1');
    expect(worstOf([300, 100, 2_000])).toBe('0.3 s in the median, 2.0 s at worst');
  });

  test('shows each run with its violations as text, and its faults in a timeline', () => {
    const run = { command: 'npm run faults', startedAt: 'now', commit: 'abc' };
    const page = pageOf([{ ...run, figures: figuresOf(HISTORY, [BROKEN]) }]);

    expect(page).toContain('two at &#60;once&#62;');
    expect(page).toContain('F12 it is killed');
    expect(page).toContain('<rect class="lasts"');
    expect(page).toContain('<polyline class="replies"');
  });
});
