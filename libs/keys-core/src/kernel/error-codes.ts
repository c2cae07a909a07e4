/** What the registry records about one code. */
interface CodeDraft {
  /** The HTTP status of the answer. */
  readonly http: number;
  /** Whether the same request may succeed if it is sent again unchanged; otherwise left out. */
  readonly retryable?: true;
  /** What an operator reads. */
  readonly text: string;
  /** What to do about it. */
  readonly doc: string;
}

/** Errors that any request can get. */
const REQUEST_CODES = {
  'request.invalid': {
    http: 400,
    text: 'The request is not valid.',
    doc: 'The message names the field that is missing, unknown or out of bounds, and what is allowed.',
  },
  'request.too_large': {
    http: 413,
    text: 'The request is too large.',
    doc: 'Each procedure has a bound of bytes and of values, which the message names: 896 KiB at most. Split the call.',
  },
  'request.deadline': {
    http: 408,
    retryable: true,
    text: 'The request took too long.',
    doc: 'The database did not answer in time, and the outcome may be unknown: send the request again with its idempotency key.',
  },
  'request.rate_limited': {
    http: 429,
    retryable: true,
    text: 'Too many requests.',
    doc: 'Try again after `details.retryAfterMs`. `details.limit` names the limit and `details.max` its value, if it is a limit of the caller.',
  },
  'request.outcome_unknown': {
    http: 503,
    retryable: true,
    text: 'The connection to the database was lost while the request was carried out; its outcome is unknown.',
    doc: 'Send the request again with its idempotency key: it is carried out at most once.',
  },
  'request.unreachable': {
    http: 503,
    retryable: true,
    text: 'No controller can be reached.',
    doc: 'Nothing was sent. Check the address, and that a controller runs there and can be reached from here: `leasehold up` starts one, `leasehold doctor` finds out more.',
  },
  'client.closed': {
    http: 409,
    text: 'The client was closed.',
    doc: 'The call was made after `close()`, or still waited then: close the client after its last call, or make another. Nothing is held: what was granted meanwhile is given back.',
  },
  'request.not_found': {
    http: 404,
    text: 'There is no such procedure.',
    doc: 'Check its name and the kind of request: queries are GET, mutations POST.',
  },
  'request.idempotency_reused': {
    http: 409,
    text: 'This idempotency key was used for another request.',
    doc: 'Nothing was done. Use a new key for each new request, and the same key only to send the same request again.',
  },
  'quota.exceeded': {
    http: 429,
    text: 'A quota of this token is used up.',
    doc: '`details.limit` names the limit and `details.max` its value. Close connections or streams, release leases, send smaller batches, or give the token a higher limit (`leasehold tokens show`).',
  },
  'internal.error': {
    http: 500,
    text: 'Something went wrong inside Leasehold.',
    doc: "The `incidentId` of the answer is in the controller's log, with the cause.",
  },
} as const satisfies Record<`${'request' | 'client' | 'quota' | 'internal'}.${string}`, CodeDraft>;

/** Who may do what. */
const ACCESS_CODES = {
  'auth.required': {
    http: 401,
    text: 'A valid token is required.',
    doc: 'The token is missing, malformed, unknown, expired or revoked.',
  },
  'auth.forbidden': {
    http: 403,
    text: 'The role of this token does not allow this.',
    doc: 'The message names the role that is needed.',
  },
  'auth.csrf': {
    http: 403,
    text: 'The request does not carry the token of its session.',
    doc: 'A change with the cookie of the console needs the header `x-leasehold-csrf`, with the value from `session.get`. Load the page again.',
  },
  'token.not_found': {
    http: 404,
    text: 'There is no such token.',
    doc: 'See `leasehold tokens ls`.',
  },
  'person.not_found': {
    http: 404,
    text: 'There is no such person.',
    doc: 'See the Access page of the console.',
  },
  'person.exists': {
    http: 409,
    text: 'Somebody with this e-mail address has signed in already.',
    doc: 'Change their role instead of inviting them, or reset their password.',
  },
  'person.not_joined': {
    http: 409,
    text: 'This person has not accepted their invitation yet.',
    doc: 'Invite them again, which makes a new link.',
  },
  'person.disabled': {
    http: 409,
    text: 'This person is disabled.',
    doc: 'Enable them first, on the Access page of the console.',
  },
  'person.last_admin': {
    http: 409,
    text: 'This is the last administrator who can sign in.',
    doc: 'Make somebody else an administrator first.',
  },
} as const satisfies Record<`${'auth' | 'token' | 'person'}.${string}`, CodeDraft>;

/** Keys, and starting their backends. */
const KEY_CODES = {
  'key.unheld': {
    http: 409,
    text: 'Nobody holds this key, and the request does not say what to spawn.',
    doc: 'Pass `spawn` (CLI: `--program`) to start a backend.',
  },
  'key.tag_mismatch': {
    http: 409,
    text: 'The key is held under another tag.',
    doc: 'The holder was not changed. Use its tag, or another key.',
  },
  'key.terminating': {
    http: 409,
    retryable: true,
    text: "The key's backend is being stopped.",
    doc: 'The key is free after `details.remainingMs` at the latest. Try again, or pass a larger `waitMs`.',
  },
  'key.holder_unreachable': {
    http: 409,
    retryable: true,
    text: 'The drone that holds the key sends no heartbeats.',
    doc: 'Its backend may still run. The key expires in `details.remainingMs` unless the drone comes back.',
  },
  'spawn.no_drone': {
    http: 503,
    retryable: true,
    text: 'No drone can run this program now.',
    doc: 'No reachable drone that is not draining offers the program and has free capacity: see `leasehold drones ls`. If no drone offers a program of this name, `details.offered` names those that are offered, to callers that may see them. With several datacenters `details.datacenter` is the home of the key, where its drone has to be, and `details.offeredIn` names those that offer the program.',
  },
  'spawn.not_allowed': {
    http: 400,
    text: 'The program, its arguments or its variables are not allowed.',
    doc: 'The token may be limited to other programs. `allowArgs` and `allowEnv` of the program in the drone configuration must allow arguments and variables.',
  },
} as const satisfies Record<`${'key' | 'spawn'}.${string}`, CodeDraft>;

/** Grants, leases and environments. */
const LEASE_CODES = {
  'grant.hold_off': {
    http: 503,
    retryable: true,
    text: 'New grants are held off: the database was restored or failed over.',
    doc: 'With `details.reason` `restored`, holders may still act on grants that a restore has lost; renewals continue. With `clock`, this key has expired by a database clock that has jumped or was not watched, and `details.holder` may still act. New grants begin after `details.remainingMs`.',
  },
  'grant.contended': {
    http: 409,
    retryable: true,
    text: 'The resource is being changed by others.',
    doc: 'Three tries found the row locked or changed. Try again.',
  },
  'lease.not_found': {
    http: 404,
    text: 'There is no such lease.',
    doc: 'It never existed, is a key or an environment, or belongs to another caller.',
  },
  'lease.ttl_out_of_range': {
    http: 400,
    text: 'The TTL is out of range.',
    doc: 'TTLs go from 1 s to 24 h.',
  },
  'lease.held': {
    http: 409,
    retryable: true,
    text: 'Somebody else holds this lease.',
    doc: 'Try again later, or wait in line with `waitMs`. `details` has the holder, the start and the remaining time; on the wire it is the outcome `held`.',
  },
  'lease.wait_timeout': {
    http: 409,
    retryable: true,
    text: 'The lease did not become free in time.',
    doc: 'Try again, or wait for longer with a larger `waitMs`. `details` has the holder.',
  },
  'lease.wait_cancelled': {
    http: 409,
    text: 'The wait for this lease was cancelled.',
    doc: 'The caller cancelled it, or its connection was lost. Send a new request with another idempotency key.',
  },
  'lease.lost': {
    http: 409,
    text: 'The lease was lost.',
    doc: 'Stop the work: another holder may have the lease. `details.reason` is expired, superseded, revoked, released or unreachable. Thrown by the client library and by the coordinator; also the reason of the aborted signal.',
  },
  'lease.unconfirmed': {
    http: 409,
    retryable: true,
    text: 'Lease ownership is unconfirmed.',
    doc: "Thrown by `assertHeld()` of the client library after the process was stopped or blocked for more than a second. `await lease.confirm()` waits for the controller's answer.",
  },
  'lease.not_held': {
    http: 409,
    text: 'The grant is not in force.',
    doc: 'It has expired, or was released, revoked or taken over. The fenced transaction was rolled back.',
  },
  'lease.self_deadlock': {
    http: 409,
    text: 'This work holds the lease that it asks for.',
    doc: 'Leases are not recursive. Pass the lease on instead of acquiring it again.',
  },
  'lease.in_hook': {
    http: 500,
    text: 'A hook may not call the coordinator.',
    doc: 'A call from a hook would wait for a row that its own transaction has locked.',
  },
  'lease.permits_differ': {
    http: 409,
    text: 'Another number of permits is declared for these leases.',
    doc: 'Two services declare different numbers, which `details.declared` and `details.asked` are. `details.declaredBy` has declared the one in force. Deploy one number, or set it: `leasehold leases permits set NAMESPACE --per-key N`, with `--total` if they have one.',
  },
  'lease.permits_not_declared': {
    http: 409,
    text: 'No number of permits is declared for these leases.',
    doc: 'Declare it before a permit is acquired: `leases.declare`, which `defineLease` of the client library calls, or `leasehold leases permits set NAMESPACE --per-key N`.',
  },
  'environment.frozen': {
    http: 409,
    text: 'The environment is frozen.',
    doc: '`details.until` is the end of the present window, and `details.reason` the reason. Wait until then, or override it with a reason: `details.roles` and `details.people` may. See `leasehold env freeze ls`.',
  },
  'environment.superseded': {
    http: 409,
    text: 'A newer request for the environment has taken the place of this one.',
    doc: 'It waited in line, and a request for the same action came with `supersede`. `details.by` is its holder, and `details.since` when it came. What this request was for is done by the newer one.',
  },
  'freeze.not_found': {
    http: 404,
    text: 'There is no such freeze.',
    doc: 'It was removed, or is over. See `leasehold env freeze ls --all`.',
  },
  'environment.vetoed': {
    http: 409,
    text: 'The environment may not be used now.',
    doc: '`details.reason` is the reason from the veto check. Nothing was recorded.',
  },
} as const satisfies Record<`${'grant' | 'lease' | 'environment' | 'freeze'}.${string}`, CodeDraft>;

/** Drones, their backends and their sessions. */
const FLEET_CODES = {
  'drone.not_found': {
    http: 404,
    text: 'There is no such drone.',
    doc: 'It has never registered, or was removed. See `leasehold drones ls`.',
  },
  'drone.in_use': {
    http: 409,
    text: 'The drone is connected, or backends of it may still run.',
    doc: '`details` has `isConnected` and `backendCount`. Stop it (`leasehold drones drain DRONE --stop`, then its service), or wait until the keys of its backends have expired: `leasehold backends ls --live --drone DRONE`.',
  },
  'drone.not_allowed': {
    http: 403,
    text: 'The token of this drone does not allow this.',
    doc: 'The drone offers a program or a capacity, or reports an address, that its token is not bound to. `details` names it and what is allowed. Change the drone configuration, or make a token with other bindings (`leasehold tokens create`).',
  },
  'backend.not_found': {
    http: 404,
    text: 'There is no such backend.',
    doc: 'See `leasehold backends ls`.',
  },
  'backend.failed': {
    http: 502,
    text: 'The backend ended before it was ready.',
    doc: 'Its program crashed, could not be started, was not ready in time, or was stopped. `details` has the reason, `hasFailed` (whether its program failed), the exit code, the signal, `livedMs`, and its last lines (`output`); `leasehold backends logs BACKEND` shows all. The next connect starts the key again.',
  },
  'backend.not_ready': {
    http: 504,
    retryable: true,
    text: 'The backend was not ready within two minutes.',
    doc: 'Nothing answers on the port that it got in `PORT`. Its drone waits on, for `readiness.timeoutMs` of the program. Connect again to go on waiting, or read `leasehold backends logs BACKEND`.',
  },
  'backend.crash_loop': {
    http: 503,
    retryable: true,
    text: 'The last backends of this key have failed: its next start is delayed.',
    doc: 'After the third failure within ten minutes a start waits for a second, after each further one twice as long, up to a minute. `details` has the number of failures, since when, and the last lines. Correct the program; `leasehold keys reset-failures NAME` ends the delay. `connect --wait` waits.',
  },
  'backend.logs_unavailable': {
    http: 503,
    retryable: true,
    text: 'The drone does not tell what this backend has written.',
    doc: 'It is not connected, or its version does not send output. The files are on its machine: `leasehold backends show BACKEND` names them.',
  },
  'session.superseded': {
    http: 409,
    text: 'A newer session of this drone has taken over.',
    doc: 'Two agents use one drone id, or this one was replaced.',
  },
} as const satisfies Record<`${'drone' | 'backend' | 'session'}.${string}`, CodeDraft>;

/** The event log, bulk actions and the webhook. */
const ACTIVITY_CODES = {
  'events.compacted': {
    http: 410,
    text: 'The requested events are no longer kept.',
    doc: 'Start again with `afterId: "oldest"`; `details.oldestId` is the first event that is kept.',
  },
  'events.other_epoch': {
    http: 410,
    text: 'The event belongs to another database epoch.',
    doc: 'The database was restored or failed over since. Read the present state, and start again from `details.lastId`, or with `afterId: "oldest"`.',
  },
  'webhook.not_configured': {
    http: 409,
    text: 'No webhook is set.',
    doc: 'Start the controllers with `LEASEHOLD_WEBHOOK_URL`, and with `LEASEHOLD_WEBHOOK_SECRET` for the format json.',
  },
  'webhook.failed': {
    http: 502,
    text: 'The webhook did not take the message.',
    doc: 'It could not be reached within ten seconds, redirected, or answered with a status that is not 2xx. Controllers call it: their network has to reach it.',
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
    doc: 'Environments can be revoked; their renewal is neither blocked nor allowed.',
  },
} as const satisfies Record<`${'events' | 'bulk' | 'webhook'}.${string}`, CodeDraft>;

/** The home of a key, and other datacenters. */
const RESERVATION_CODES = {
  'reservation.datacenter_unreachable': {
    http: 503,
    retryable: true,
    text: "The key's datacenter cannot be reached.",
    doc: '`details.datacenter` is the home of the key, which is not granted elsewhere. Try again, or call a controller of that datacenter.',
  },
  'reservation.store_unreachable': {
    http: 503,
    retryable: true,
    text: 'The reservation store cannot be reached.',
    doc: 'Keys whose home is known still work. New keys do not: try again.',
  },
  'reservation.not_found': {
    http: 404,
    text: 'Nothing is reserved under this key.',
    doc: 'Only a key that was reserved, by a first connect or by `reservations.reserve`, can be moved.',
  },
  'reservation.unknown_datacenter': {
    http: 400,
    text: 'There is no such datacenter.',
    doc: '`details.known` lists those that this controller knows: its own and LEASEHOLD_PEERS.',
  },
  'reservation.same_datacenter': {
    http: 409,
    text: 'The key lives in that datacenter already.',
    doc: 'There is nothing to move.',
  },
  'reservation.key_held': {
    http: 409,
    retryable: true,
    text: 'The key is held, and a held key cannot be moved.',
    doc: 'Revoke it gracefully, or wait for `details.remainingMs`, and move it when it is free.',
  },
  'reservation.moved_meanwhile': {
    http: 409,
    retryable: true,
    text: 'The key was moved elsewhere in the meantime.',
    doc: '`details.datacenter` is its home now. To move it from there, start a new move.',
  },
  'reservation.move_unfinished': {
    http: 503,
    retryable: true,
    text: 'The key has left its home, and is not known to have arrived in the new one.',
    doc: 'Until it has arrived, nobody is granted the key. `details.datacenter` is the new home, and `details.reason` the code of what went wrong. The same move again, or the next connect, completes it when the new home and the reservation store can be reached.',
  },
  'reservation.chain_too_long': {
    http: 409,
    text: 'The key has been moved too often.',
    doc: 'A key can move 64 times. Use another key.',
  },
  'reservation.conflict': {
    http: 409,
    text: 'This datacenter is not the home of the key.',
    doc: 'The reservation store does not confirm the home that a caller, or another datacenter, uses. See the runbook.',
  },
  'reservation.datacenter_given_up': {
    http: 409,
    text: 'The datacenter was given up.',
    doc: 'Its keys get homes elsewhere, and it does not start any more. `details` says who did it, when and why. See the runbook.',
  },
  'reservation.datacenter_reachable': {
    http: 409,
    text: 'The datacenter answers: it is not lost.',
    doc: 'Only a datacenter that never comes back can be given up. Move its keys instead.',
  },
  'reservation.give_up_early': {
    http: 409,
    retryable: true,
    text: 'The keys of the datacenter cannot be given other homes yet.',
    doc: 'Something there may still act on them, for `details.remainingMs` at most; null when that cannot be known. Wait, or be certain that its machines are off, and abandon what may run there.',
  },
  'reservation.not_given_up': {
    http: 404,
    text: 'The datacenter was not given up.',
    doc: 'There is nothing to take back.',
  },
  'peer.refused': {
    http: 503,
    retryable: true,
    text: 'Another datacenter refused the credentials of this one.',
    doc: '`details.datacenter` says which. Both sides must have the same secret for each other in LEASEHOLD_PEER_TOKEN.',
  },
} as const satisfies Record<`${'reservation' | 'peer'}.${string}`, CodeDraft>;

/** Tokens of people who reach keys through a gateway. */
const GATEWAY_CODES = {
  'gateway.not_configured': {
    http: 409,
    text: 'No gateway is configured.',
    doc: 'Nothing was done. Set LEASEHOLD_GATEWAY_URL on every controller to the address at which browsers reach the gateway.',
  },
  'gateway.elsewhere': {
    http: 409,
    text: 'The key lives in another datacenter.',
    doc: 'Its requests are for the gateway of that datacenter, to which the gateway sends browsers. If that fails, check LEASEHOLD_GATEWAY_URL of the controllers there, and whether `leasehold datacenters` can reach them.',
  },
  'gateway.grant_over': {
    http: 410,
    text: 'The grant that this token is for has ended.',
    doc: 'The token was made with `grantOnly`. Connect again for a token of the present grant.',
  },
  'gateway.start_over': {
    http: 410,
    text: 'The key has no backend, and what the token may start is not known any more.',
    doc: 'It is kept until the last token that names it has expired. Connect again.',
  },
  'gateway.token_over': {
    http: 410,
    text: 'The gateway token is not in force.',
    doc: 'It was revoked, has expired, or was not made here. Sign another one.',
  },
  'gateway.too_many_revocations': {
    http: 429,
    text: 'Too many revocations of gateway tokens are in force.',
    doc: 'Nothing was revoked. Revoke more at once: a user in a namespace instead of in each key. `leasehold gateway rotate --now` ends all tokens, and all revocations with them.',
  },
} as const satisfies Record<`gateway.${string}`, CodeDraft>;

/** A controller, its configuration and its database. */
const PROCESS_CODES = {
  'controller.stopping': {
    http: 503,
    retryable: true,
    text: 'This controller is stopping.',
    doc: 'Nothing was done. Send the request to another controller, as the client library does.',
  },
  'controller.overloaded': {
    http: 503,
    retryable: true,
    text: 'This controller is asked for more grants than it can carry out.',
    doc: 'Nothing was done. Try again after `details.retryAfterMs`, with a longer pause after each further refusal, as the client library does. Renewals and releases are not refused.',
  },
  'store.unavailable': {
    http: 503,
    retryable: true,
    text: 'The database cannot be reached, or cannot work now.',
    doc: 'Nothing was changed. Try again; `leasehold doctor` shows more. `details.reason` is `disk_full` when the disk of the database or of the controller is full, `connections_taken` when others have all connections, `table_locked` when another transaction has locked the table of leases, `read_only` when the database is a standby or was set to be read-only.',
  },
  'store.not_permitted': {
    http: 500,
    text: 'The database role may not do this.',
    doc: 'The message names what was refused. "Database roles" in docs/operate/postgresql.md lists the privileges that each part needs.',
  },
  'store.schema_foreign': {
    http: 500,
    text: 'The schema of the database contains tables of another application.',
    doc: 'Name an empty schema, or one that does not exist, in LEASEHOLD_SCHEMA. Nothing was changed.',
  },
  'store.schema_newer': {
    http: 500,
    text: 'The database belongs to a newer version of Leasehold.',
    doc: 'Start the version that has migrated it, or a later one. Controllers of this version that are already running continue.',
  },
  'store.schema_changed': {
    http: 500,
    text: 'The migrations of the database differ from those of this version.',
    doc: 'A migration differs from the one that was applied, by its SHA-256. Use the files of the release unchanged.',
  },
  'config.invalid': {
    http: 500,
    text: 'The configuration is not valid.',
    doc: 'Every problem is listed. Nothing was started.',
  },
} as const satisfies Record<`${'controller' | 'store' | 'config'}.${string}`, CodeDraft>;

const CODES = {
  ...REQUEST_CODES,
  ...ACCESS_CODES,
  ...KEY_CODES,
  ...LEASE_CODES,
  ...FLEET_CODES,
  ...ACTIVITY_CODES,
  ...RESERVATION_CODES,
  ...GATEWAY_CODES,
  ...PROCESS_CODES,
};

/** One of the codes of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof CODES;

/**
 * Every code an error of Leasehold can carry, by area. Expected outcomes are not here: a
 * refused grant or renewal is a value with an `outcome`. The page of errors of the documentation is
 * generated from this table.
 */
export const ERROR_CODES = Object.fromEntries(
  Object.entries(CODES).map(([code, entry]) => [code, { retryable: false, ...entry }]),
) as { readonly [Code in ErrorCode]: (typeof CODES)[Code] & { readonly retryable: boolean } };
