/** Short names for quantities and bounds, so that measurements read well. */
import type { Bound, Quantity } from './figures.ts';

export const perSecond = (value: number): Quantity => ({ value, unit: '/s' });
export const times = (value: number): Quantity => ({ value, unit: 'x' });
export const milliseconds = (value: number): Quantity => ({ value, unit: 'ms' });
export const microseconds = (value: number): Quantity => ({ value, unit: 'us' });
export const bytes = (value: number): Quantity => ({ value, unit: 'bytes' });
export const megabytes = (bytesCount: number): Quantity => ({
  value: bytesCount / 1e6,
  unit: 'MB',
});
export const cores = (value: number): Quantity => ({ value, unit: 'cores' });
export const count = (value: number): Quantity => ({ value, unit: 'count' });
export const share = (value: number): Quantity => ({ value, unit: 'share' });

export const atLeast = (value: number): Bound => ({ is: 'at least', value });
export const atMost = (value: number): Bound => ({ is: 'at most', value });
