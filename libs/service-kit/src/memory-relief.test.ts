import { expect, test } from 'vitest';
import { createMemoryRelief } from './memory-relief.ts';

const MB = 1_024 * 1_024;

function aHeap() {
  const heap = { usedMb: 100, liveMb: 100, collections: 0 };
  const look = createMemoryRelief({
    usedBytes: () => heap.usedMb * MB,
    collect: () => {
      heap.collections += 1;
      heap.usedMb = heap.liveMb;
    },
  });
  return { heap, look };
}

test('the garbage of a burst is collected once when the burst is over, and not while it lasts', () => {
  const { heap, look } = aHeap();

  for (const usedMb of [140, 180, 220]) {
    heap.usedMb = usedMb;
    look();
  }
  expect(heap.collections).toBe(0);
  look();
  expect(heap.collections).toBe(1);
  look();
  expect(heap.collections).toBe(1);
});

test('memory that is in use does not cause one collection after another', () => {
  const { heap, look } = aHeap();
  heap.liveMb = 300;
  heap.usedMb = 300;

  for (let nth = 0; nth < 10; nth += 1) look();

  expect(heap.collections).toBe(1);
});
