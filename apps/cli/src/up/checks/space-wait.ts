import { onceThereIsSpace } from '@leasehold/keys-core/postgres';
import { printable } from '../../output/printable.ts';
import type { FailureWatch } from './failure-watch.ts';
import type { Supervision } from '@leasehold/service-kit/supervision';

/** Retries something until no full disk prevents it, see {@link onceThereIsSpace}. */
export type SpaceWait = <Result>(work: () => Result | Promise<Result>) => Promise<Result>;

/** A wait that is reported on the terminal and ends when everything is to end. */
export function createSpaceWait(watch: FailureWatch, { stop, time }: Supervision): SpaceWait {
  return (work) =>
    onceThereIsSpace(work, {
      async pause(ms) {
        await time.pause(ms, stop);
        stop.throwIfAborted();
      },
      onFull: (error) => watch.state(`waiting for space on a disk: ${messageOf(error)}`),
    });
}

/** What an error says, as it may be shown in a terminal. */
export function messageOf(error: unknown): string {
  return printable(error instanceof Error ? error.message : String(error));
}
