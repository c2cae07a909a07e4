/** When a controller must end because its datacenter was given up, or may have been. */
import { LeaseError } from '@leasehold/keys-core';
import type { OwnStanding } from '@leasehold/keys-core/reservations';
import type { Store } from '@leasehold/keys-core/postgres';

export const NOT_CONFIRMED =
  'this datacenter was last in touch with it so long ago (LEASEHOLD_START_WITHOUT_ETCD_MS) that it may have been given up since';

/** Asks whether this datacenter was given up, and ends the controller when it was, or may have been. */
export function createLeaving(
  standing: OwnStanding,
  { clock }: Pick<Store, 'clock'>,
  aloneForMs: number,
): { readonly failed: Promise<never>; look(): Promise<void> } {
  let aloneUntilMs = clock.nowMs() + aloneForMs;
  let fail: (error: unknown) => void = () => undefined;
  const failed = new Promise<never>((_resolve, reject) => {
    fail = reject;
  });
  // A caller that awaits it gets the error; nobody has to.
  failed.catch(() => undefined);
  return {
    failed,
    async look() {
      try {
        await standing.confirm();
        // From now on it has seen for itself that it was not: it goes on while etcd is unreachable.
        aloneUntilMs = Infinity;
      } catch (error) {
        const isOver = clock.nowMs() >= aloneUntilMs;
        const isGivenUp =
          error instanceof LeaseError && error.code === 'reservation.datacenter_given_up';
        if (isGivenUp) fail(error);
        else if (isOver) fail(cannotGoOn(error));
        else unlessAway(error);
      }
    },
  };
}

function cannotGoOn(cause: unknown): LeaseError {
  return new LeaseError(
    'reservation.store_unreachable',
    `etcd (LEASEHOLD_ETCD) has not answered since this controller was started, and ${NOT_CONFIRMED}.`,
    { cause },
  );
}

/** That etcd is unreachable ends nothing by itself. */
export function unlessAway(error: unknown): void {
  if (error instanceof LeaseError && error.code === 'reservation.store_unreachable') return;
  throw error;
}
