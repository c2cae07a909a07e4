import type { CodeDraft } from './code-entry.ts';

/** The event log and bulk actions. */
export const ACTIVITY_CODES = {
  'events.compacted': {
    http: 410,
    text: 'The requested events are no longer kept.',
    doc: 'Some events after `afterId` have been removed, and this reader will not get them. Start again with `afterId: "oldest"`; `details.oldestId` is the first event that is kept.',
  },
  'events.other_epoch': {
    http: 410,
    text: 'The event belongs to another database epoch.',
    doc: 'The database was restored or failed over since, and numbers of events may have been used again. Read the present state, and start again from `details.lastId`, or with `afterId: "oldest"`.',
  },
  'bulk.not_found': {
    http: 404,
    text: 'There is no such bulk action.',
    doc: 'It was never started, or is older than events are kept.',
  },
  'bulk.busy': {
    http: 429,
    retryable: true,
    text: 'Too many bulk actions are running.',
    doc: 'At most ten run at a time. Wait for one to end, or abort one.',
  },
  'bulk.unsupported': {
    http: 409,
    text: 'This cannot be done to an environment.',
    doc: 'Environments can be revoked; their renewal is neither blocked nor allowed. Reported for one item of a bulk action.',
  },
} as const satisfies Record<`${'events' | 'bulk'}.${string}`, CodeDraft>;
