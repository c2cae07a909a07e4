/** A service that speaks to a controller. */
import { createLeasehold } from '@leasehold/client';

export const leasehold = createLeasehold({
  url: process.env['LEASEHOLD_URL'] ?? '',
  token: process.env['LEASEHOLD_TOKEN'] ?? '',
});
export const userId = '42';
export const doWork = ({ signal }: { signal: AbortSignal }): Promise<void> => {
  signal.throwIfAborted();
  return Promise.resolve();
};
// <block>
