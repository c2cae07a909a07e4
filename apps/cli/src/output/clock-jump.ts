import type { ClockJumpView } from '@leasehold/api/contract';
import { durationText } from './duration.ts';

/** A step of the database's clock, and what follows from it. */
export function clockJumpText({ at, jumpMs, remainingMs, unsureUntil }: ClockJumpView): string {
  const direction = jumpMs > 0 ? 'forward' : 'back';
  const step = `it stepped ${direction} by ${durationText(Math.abs(jumpMs))} at ${at}`;
  return remainingMs === 0
    ? step
    : `${step}; what was granted before is not taken over when it expires, until ${unsureUntil} at the latest`;
}
