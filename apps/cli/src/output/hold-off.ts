import type { HoldOffView } from '@leasehold/api/contract';
import { durationText } from './duration.ts';

/** What showed that the database had changed, for people. */
const CAUSES: Readonly<Record<NonNullable<HoldOffView['cause']>, string>> = {
  system_identifier: 'it is in another cluster',
  timeline: 'its timeline is another one',
  controller: 'a controller has seen more in it',
  holder: 'a drone or a client was told of more in it',
  replaced: 'another database is in its place',
};

export function holdOffText({ remainingMs, until, cause }: HoldOffView): string {
  const why = cause === null ? '' : `: ${CAUSES[cause]}`;
  return `New grants are held off for ${durationText(remainingMs)}, until ${until}. The database was restored or failed over${why}.`;
}
