import type { CodeDraft } from './code-entry.ts';

/** The event log, bulk actions and the webhook. */
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
  'webhook.not_configured': {
    http: 409,
    text: 'No webhook is set.',
    doc: 'Start the controllers with `LEASEHOLD_WEBHOOK_URL`, and with `LEASEHOLD_WEBHOOK_SECRET` for the format json.',
  },
  'webhook.failed': {
    http: 502,
    text: 'The webhook did not take the message.',
    doc: 'It could not be reached within ten seconds, redirected, or answered with a status that is not 2xx: the message has which. Controllers call it: their network has to reach it.',
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
} as const satisfies Record<`${'events' | 'bulk' | 'webhook'}.${string}`, CodeDraft>;
