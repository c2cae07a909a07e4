import v8 from 'node:v8';

/**
 * Keeps the heap close to the size of its live objects. A thousand backends that start together leave garbage
 * that would otherwise stay for minutes, in a young generation of 32 MB and an old one of three times
 * its contents; a drone's memory is taken from the backends that it runs.
 */
export function keepMemorySmall(): void {
  v8.setFlagsFromString('--semi-space-growth-factor=1');
  v8.setFlagsFromString('--heap-growing-percent=20');
}

/**
 * For a process that does little work: code is compiled, and not optimized. The optimizer and its
 * output take 5 MB.
 */
export function keepCodeSmall(): void {
  v8.setFlagsFromString('--no-opt');
}
