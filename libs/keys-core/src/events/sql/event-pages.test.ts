import { describe, expect, test } from 'vitest';
import { FinalMark, type MarkReading, NOTES_MAX } from './event-pages.ts';

/** A reading that saw events up to `lastId`, while transactions from `xmin` on were under way. */
function look(lastId: number, ownXid: number | null, xmin: number, xmax = 1_000_000): MarkReading {
  return {
    lastId: BigInt(lastId),
    ownXid: ownXid === null ? null : BigInt(ownXid),
    xmin: BigInt(xmin),
    xmax: BigInt(xmax),
  };
}

describe('finality', () => {
  test('events are final at once while nobody else writes', () => {
    const mark = new FinalMark();

    mark.observe(look(7, 100, 100, 100));

    expect(mark.finalId).toBe(7n);
  });

  test('events wait for a transaction that began before they were read', () => {
    const mark = new FinalMark();

    mark.observe(look(7, 100, 99));
    expect(mark.finalId).toBe(0n);
    expect(mark.notedId).toBe(7n);
    mark.observe(look(8, 105, 99));
    expect(mark.finalId).toBe(0n);
    mark.observe(look(8, null, 104));
    expect(mark.finalId).toBe(7n);
    mark.observe(look(8, null, 105));
    expect(mark.finalId).toBe(8n);
  });

  test('a reading without new events notes nothing', () => {
    const mark = new FinalMark();
    mark.observe(look(7, 100, 100));

    mark.observe(look(7, null, 90));

    expect(mark.notedId).toBe(7n);
    expect(mark.finalId).toBe(7n);
  });

  test('notes stay few however long one transaction holds events back, and the last note counts', () => {
    const mark = new FinalMark();
    for (let at = 1; at <= NOTES_MAX * 10; at += 1) mark.observe(look(at, 100 + at, 50));
    expect(mark.finalId).toBe(0n);

    mark.observe(look(NOTES_MAX * 10, null, 100 + NOTES_MAX * 5 + 20));
    expect(mark.finalId).toBeGreaterThan(0n);
    expect(mark.finalId).toBeLessThanOrEqual(BigInt(NOTES_MAX * 5 + 20));
    mark.observe(look(NOTES_MAX * 10, null, 100 + NOTES_MAX * 10));

    expect(mark.finalId).toBe(BigInt(NOTES_MAX * 10));
  });

  test('a note whose transaction id was lost in a crash is made again, and holds up nothing', () => {
    const mark = new FinalMark();
    mark.observe(look(7, 100, 99));

    mark.observe(look(7, null, 95, 95));
    expect(mark.notedId).toBe(0n);
    mark.observe(look(7, 95, 95, 95));

    expect(mark.finalId).toBe(7n);
  });
});
