import { expect, onTestFinished } from 'vitest';

/** What several tests of a file use, one after the other. */
export interface Kept<Thing> {
  /** Makes it as it was when it was new, after a test. @returns whether the next test can have it. */
  readonly renew: (thing: Thing) => Promise<boolean>;
  readonly end: (thing: Thing) => Promise<void>;
}

/**
 * A way to take what costs much to make: each test has it for itself until it ends, and the next test of
 * the file gets it again. A file that ends leaves its things to the next one to end.
 */
export function keepBetweenTests<Thing>(
  make: () => Promise<Thing>,
  { renew, end }: Kept<Thing>,
): () => Promise<Thing> {
  let free: Thing[] = [];
  let file: string | undefined;
  return async () => {
    const { testPath } = expect.getState();
    if (testPath !== file) {
      const left = free;
      [free, file] = [[], testPath];
      await Promise.all(left.map(end));
    }
    const thing = free.pop() ?? (await make());
    onTestFinished(async () => {
      if (await renew(thing)) free.push(thing);
      else await end(thing);
    });
    return thing;
  };
}
