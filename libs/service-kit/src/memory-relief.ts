/**
 * Gives memory back after a burst. V8 collects garbage when it needs room. After a burst of calls it
 * needs none, and what was garbage then, buffers too, stays resident for as long as the process has little to do.
 */
import v8 from 'node:v8';
import { runInNewContext } from 'node:vm';

const LOOK_MS = 3_000;
/** Garbage that is worth a collection, which stops everything for some 50 ms. */
const GROWN_BYTES_MIN = 48 * 1_024 * 1_024;
/** A heap that still grows by more than this from one check to the next is in use. */
const GROWING_BYTES = 4 * 1_024 * 1_024;

export interface HeapAccess {
  readonly usedBytes: () => number;
  readonly collect: () => void;
}

/** @returns a function to call now and then: it collects once, when a burst is over. */
export function createMemoryRelief({ usedBytes, collect }: HeapAccess): () => void {
  let afterCollection = usedBytes();
  let lastLook = afterCollection;
  return () => {
    const used = usedBytes();
    const isGrowing = used - lastLook > GROWING_BYTES;
    lastLook = used;
    afterCollection = Math.min(afterCollection, used);
    if (isGrowing || used - afterCollection < GROWN_BYTES_MIN) return;
    collect();
    afterCollection = usedBytes();
    lastLook = afterCollection;
  };
}

/** Checks every three seconds, for as long as the process lives. */
export function startMemoryRelief(): void {
  const look = createMemoryRelief({
    usedBytes() {
      const heap = v8.getHeapStatistics();
      return heap.used_heap_size + heap.external_memory;
    },
    collect: collector(),
  });
  setInterval(look, LOOK_MS).unref();
}

/** Node gives a function that collects garbage to a context that is made with this flag alone. */
function collector(): () => void {
  v8.setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  v8.setFlagsFromString('--no-expose-gc');
  return () => collect();
}
