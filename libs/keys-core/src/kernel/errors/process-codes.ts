import type { CodeDraft } from './code-entry.ts';

/** A controller, its configuration and its database. */
export const PROCESS_CODES = {
  'controller.stopping': {
    http: 503,
    retryable: true,
    text: 'This controller is stopping.',
    doc: 'Nothing was done. Send the request to another controller, or to this one when it runs again. The client library does this by itself.',
  },
  'controller.overloaded': {
    http: 503,
    retryable: true,
    text: 'This controller is asked for more grants than it can carry out.',
    doc: 'Nothing was done. Try again after `details.retryAfterMs`, with a longer pause after each further refusal. The client library does this by itself. Renewals and releases are not refused.',
  },
  'store.unavailable': {
    http: 503,
    retryable: true,
    text: 'The database cannot be reached, or cannot work now.',
    doc: 'Nothing was changed. Try again; `leasehold doctor` shows more. When `details.reason` is `disk_full`, the disk of the database is full, or that of the controller: requests are answered again as soon as there is space. When it is `connections_taken`, others have all connections of the database; when it is `table_locked`, another transaction keeps everybody from the table of leases; when it is `read_only`, the database is a standby or was set to be read-only.',
  },
  'store.not_permitted': {
    http: 500,
    text: 'The database role may not do this.',
    doc: 'The message names what was refused. "Database roles" in docs/operate/postgresql.md lists the privileges that each part needs.',
  },
  'store.schema_foreign': {
    http: 500,
    text: 'The schema of the database contains tables of another application.',
    doc: 'Leasehold needs a schema of its own. Name an empty one, or one that does not exist, in LEASEHOLD_SCHEMA. Nothing was changed.',
  },
  'store.schema_newer': {
    http: 500,
    text: 'The database belongs to a newer version of Leasehold.',
    doc: 'A newer version has applied migrations with which this version must not start. Start that version, or a later one. Controllers of this version that are already running continue.',
  },
  'store.schema_changed': {
    http: 500,
    text: 'The migrations of the database differ from those of this version.',
    doc: 'A migration file differs from the one that was applied, by its SHA-256. Use the files of the release unchanged.',
  },
  'config.invalid': {
    http: 500,
    text: 'The configuration is not valid.',
    doc: 'Every problem is listed. Nothing was started.',
  },
} as const satisfies Record<`${'controller' | 'store' | 'config'}.${string}`, CodeDraft>;
