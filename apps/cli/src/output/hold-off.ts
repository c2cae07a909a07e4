import type { HoldOffView } from '@leasehold/api/contract';
import { durationText } from './duration.ts';

/** What showed that the database had changed, for people. */
const CAUSES: Readonly<Record<NonNullable<HoldOffView['cause']>, string>> = {
  system_identifier: 'it is another cluster',
  timeline: 'its timeline has changed',
  controller: 'a controller had seen a later state',
  holder: 'a drone or a client had seen a later state',
  replaced: 'another database has taken its place',
};

export function holdOffText({ remainingMs, until, cause }: HoldOffView): string {
  const why = cause === null ? '' : `: ${CAUSES[cause]}`;
  return `New grants are held off for ${durationText(remainingMs)}, until ${until}. The database was restored or failed over${why}.`;
}
