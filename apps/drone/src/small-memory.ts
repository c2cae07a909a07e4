import v8 from 'node:v8';

/**
 * Keeps the young generation of the heap at its first size. It would grow to 32 MB after a burst,
 * such as a thousand backends that start together, and stay there; a drone allocates little between
 * bursts, and its memory is taken from the backends that it runs.
 */
export function keepMemorySmall(): void {
  v8.setFlagsFromString('--semi-space-growth-factor=1');
}
