import { expect, test } from 'vitest';
import { chainDrawing, DRAWN_MAX } from './chain.tsx';

const linksOf = (datacenters: readonly string[]) =>
  datacenters.map((datacenter, index) => ({
    reservationId: `${datacenter}.${String(index)}`,
    datacenter,
    state: 'moved' as const,
  }));

test('every datacenter has one lane, however often the key came back to it', () => {
  const { lanes, links } = chainDrawing(linksOf(['dc2', 'dc1', 'dc2']), ['dc1', 'dc2', 'dc3']);

  expect(lanes).toEqual(['dc2', 'dc1', 'dc3']);
  expect(links.map(({ lane, column, place }) => [lane, column, place])).toEqual([
    [0, 0, 1],
    [1, 1, 2],
    [0, 2, 3],
  ]);
});

test('only the newest reservations of a long chain are drawn, with their places', () => {
  const long = linksOf(Array.from({ length: 20 }, (_one, index) => `dc${String(index % 2)}`));
  const { links, hiddenCount } = chainDrawing(long, []);

  expect(links).toHaveLength(DRAWN_MAX);
  expect(hiddenCount).toBe(20 - DRAWN_MAX);
  expect(links.at(-1)).toMatchObject({ place: 20, column: DRAWN_MAX - 1 });
});
