/**
 * Every code an error of Leasehold can carry. What a caller should expect is not here: a refused
 * grant or renewal is a value with an `outcome`. `docs/errors.md` is generated from this table.
 *
 * `http` is the status of the answer; `retryable` says that the same request may succeed if it is
 * sent again unchanged; `text` is what an operator reads; `doc` says what to do about it.
 */
export const ERROR_CODES = {
  'request.invalid': {
    http: 400,
    retryable: false,
    text: 'The request is not valid.',
    doc: 'A field is missing, unknown, of the wrong type or out of bounds. The message names it and says what is allowed.',
  },
  'request.too_large': {
    http: 413,
    retryable: false,
    text: 'The request body is too large.',
    doc: 'Bodies are limited to 4 MiB. Split the call.',
  },
  'request.deadline': {
    http: 408,
    retryable: true,
    text: 'The request took too long.',
    doc: 'The database did not answer in time. The outcome may be unknown: send the request again with its idempotency key.',
  },
  'request.rate_limited': {
    http: 429,
    retryable: true,
    text: 'Too many requests.',
    doc: 'Slow down and try again after `details.retryAfterMs`. `details.limit` names the limit and `details.max` its value, if it is a limit of the caller.',
  },
  'quota.exceeded': {
    http: 429,
    retryable: false,
    text: 'A quota of this token is used up.',
    doc: '`details.limit` names the limit and `details.max` its value. Waiting alone does not help: close connections or streams, release leases, send smaller batches, or give the token a higher limit (`leasehold tokens show`).',
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
    doc: 'Thrown by the client library, and answered by the console, when no connection was made. Nothing was sent. Check the address, and `leasehold doctor`.',
  },
  'request.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such procedure.',
    doc: 'Check the name of the procedure and the kind of request: queries are GET, mutations POST.',
  },
  'auth.required': {
    http: 401,
    retryable: false,
    text: 'A valid token is required.',
    doc: 'The token is missing, malformed, unknown, expired or revoked.',
  },
  'auth.forbidden': {
    http: 403,
    retryable: false,
    text: 'The role of this token does not allow this.',
    doc: 'The message names the role that is needed.',
  },
  'auth.csrf': {
    http: 403,
    retryable: false,
    text: 'The request does not carry the token of its session.',
    doc: 'A change that is made with the cookie of the console needs the header `x-leasehold-csrf`, as `session.get` gives it. Load the page again.',
  },
  'person.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such person.',
    doc: 'See the Access page of the console.',
  },
  'person.exists': {
    http: 409,
    retryable: false,
    text: 'Somebody with this e-mail address has signed in already.',
    doc: 'Change their role instead of inviting them, or reset their password.',
  },
  'person.not_joined': {
    http: 409,
    retryable: false,
    text: 'This person has not accepted their invitation yet.',
    doc: 'There is no password to reset. Invite them again, which makes a new link.',
  },
  'person.disabled': {
    http: 409,
    retryable: false,
    text: 'This person is disabled.',
    doc: 'Enable them first, on the Access page of the console.',
  },
  'person.last_admin': {
    http: 409,
    retryable: false,
    text: 'This is the last administrator who can sign in.',
    doc: 'Make somebody else an administrator first.',
  },
  'bulk.not_found': {
    http: 404,
    retryable: false,
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
    retryable: false,
    text: 'This cannot be done to an environment.',
    doc: 'Environments can be revoked; their renewal is neither blocked nor allowed. Reported for one item of a bulk action.',
  },
  'key.unheld': {
    http: 409,
    retryable: false,
    text: 'Nobody holds this key, and the request does not say what to spawn.',
    doc: 'Pass `spawn` (CLI: `--program`) to start a backend.',
  },
  'key.tag_mismatch': {
    http: 409,
    retryable: false,
    text: 'The key is held under another tag.',
    doc: 'The holder was left alone. Use its tag, or another key.',
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
    doc: 'No reachable drone that is not draining offers the program and has free capacity. See `leasehold drones ls`.',
  },
  'spawn.not_allowed': {
    http: 400,
    retryable: false,
    text: 'The program, its arguments or its variables are not allowed.',
    doc: 'The token may be limited to other programs. Arguments and environment variables must be allowed by `allowArgs` and `allowEnv` of the program in the drone configuration.',
  },
  'lease.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such lease.',
    doc: 'It never existed, is a key or an environment, or belongs to another caller.',
  },
  'lease.ttl_out_of_range': {
    http: 400,
    retryable: false,
    text: 'The TTL is out of range.',
    doc: 'TTLs go from 1 s to 24 h.',
  },
  'lease.held': {
    http: 409,
    retryable: true,
    text: 'Somebody else holds this lease.',
    doc: 'Thrown by the client library; on the wire it is the outcome `held`. `details` say by whom, since when and for how much longer.',
  },
  'lease.wait_timeout': {
    http: 409,
    retryable: true,
    text: 'The lease did not become free in time.',
    doc: 'Thrown by the client library after `waitMs` in line. `details` say who holds it. Wait longer, or try again later.',
  },
  'lease.wait_cancelled': {
    http: 409,
    retryable: false,
    text: 'The wait for this lease was given up.',
    doc: 'Its caller cancelled it, or its connection was lost. The request is never granted; ask again with another idempotency key.',
  },
  'lease.lost': {
    http: 409,
    retryable: false,
    text: 'The lease was lost.',
    doc: 'Thrown to holders by the client library and by the coordinator. It is also the reason of their aborted signal. `details.reason` is expired, superseded, revoked, released or unreachable. Stop the work: another holder may have the lease.',
  },
  'lease.unconfirmed': {
    http: 409,
    retryable: true,
    text: 'Lease ownership is unconfirmed.',
    doc: 'Thrown by `assertHeld()` of the client library after the process was stopped or blocked for more than a second. The client is already asking the controller; `await lease.confirm()` waits for the answer.',
  },
  'lease.not_held': {
    http: 409,
    retryable: false,
    text: 'The grant is not in force.',
    doc: 'The grant has expired, or was released, revoked or taken over. The fenced transaction was rolled back.',
  },
  'lease.self_deadlock': {
    http: 409,
    retryable: false,
    text: 'This work holds the lease that it asks for.',
    doc: 'Leases are not recursive: waiting would end only when the lease is lost. Pass the lease on instead of acquiring it again.',
  },
  'lease.in_hook': {
    http: 500,
    retryable: false,
    text: 'A hook may not call the coordinator.',
    doc: 'Hooks get the transaction and nothing else: a call from within would wait for a row that its own transaction has locked.',
  },
  'environment.vetoed': {
    http: 409,
    retryable: false,
    text: 'The environment may not be used now.',
    doc: '`details.reason` is what the veto check said. Nothing was recorded.',
  },
  'request.idempotency_reused': {
    http: 409,
    retryable: false,
    text: 'This idempotency key was used for another request.',
    doc: 'One key stands for one request, in all procedures. Use a new key for each new request, and the same key only to send the same request again. Nothing was done.',
  },
  'grant.hold_off': {
    http: 503,
    retryable: true,
    text: 'New grants are held off: the database was restored or failed over.',
    doc: 'With `details.reason` `restored`, holders may still act on grants that the restore has lost; renewals continue. With `clock`, this key has expired by a database clock that was not watched or has jumped, and `details.holder` may still act. New grants begin after `details.remainingMs`.',
  },
  'grant.contended': {
    http: 409,
    retryable: true,
    text: 'The resource is being changed by others.',
    doc: 'Three tries found the row locked or changed. Try again.',
  },
  'drone.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such drone.',
    doc: 'It has never registered. See `leasehold drones ls`.',
  },
  'backend.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such backend.',
    doc: 'See `leasehold backends ls`.',
  },
  'drone.not_allowed': {
    http: 403,
    retryable: false,
    text: 'The token of this drone does not allow this.',
    doc: 'The drone offers a program or a capacity, or reports an address, that its token is not bound to. `details` names it and what is allowed. Change the drone configuration, or make a token with other bindings: `leasehold tokens create --role drone --drone ID --program P --capacity N --address RANGE`.',
  },
  'token.not_found': {
    http: 404,
    retryable: false,
    text: 'There is no such token.',
    doc: 'See `leasehold tokens ls`.',
  },
  'session.superseded': {
    http: 409,
    retryable: false,
    text: 'A newer session of this drone has taken over.',
    doc: 'Two agents run with one drone id, or this one was replaced. The newest session counts.',
  },
  'events.compacted': {
    http: 410,
    retryable: false,
    text: 'The events asked for are no longer kept.',
    doc: 'Some events after `afterId` have been removed, and this reader will not get them. Start again with `afterId: "oldest"`; `details.oldestId` is the first event that is kept.',
  },
  'events.other_epoch': {
    http: 410,
    retryable: false,
    text: 'The event belongs to another database epoch.',
    doc: 'The database was restored or failed over since, and numbers of events may have been used again. Read the present state, and start again from `details.lastId`, or with `afterId: "oldest"`.',
  },
  'reservation.datacenter_unreachable': {
    http: 503,
    retryable: true,
    text: "The key's datacenter cannot be reached.",
    doc: '`details.datacenter` is the home of the key. The key stays there, and its datacenter still serves its holder. Try again, or call a controller of that datacenter.',
  },
  'reservation.store_unreachable': {
    http: 503,
    retryable: true,
    text: 'The reservation store cannot be reached.',
    doc: 'Keys whose home is known still work. The home of a new key cannot be decided now: try again.',
  },
  'reservation.not_found': {
    http: 404,
    retryable: false,
    text: 'Nothing is reserved under this key.',
    doc: 'Only a key that was reserved, by a first connect or by `reservations.reserve`, can be moved.',
  },
  'reservation.unknown_datacenter': {
    http: 400,
    retryable: false,
    text: 'There is no such datacenter.',
    doc: '`details.known` lists the datacenters that this controller knows: its own and LEASEHOLD_PEERS.',
  },
  'reservation.same_datacenter': {
    http: 409,
    retryable: false,
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
    text: 'The key was moved elsewhere meanwhile.',
    doc: 'Another move came first; `details.datacenter` says where the key lives now. To move it from there, start a new move.',
  },
  'reservation.chain_too_long': {
    http: 409,
    retryable: false,
    text: 'The key has been moved too often.',
    doc: 'A key can move 64 times. Use another key.',
  },
  'reservation.conflict': {
    http: 409,
    retryable: false,
    text: 'This datacenter is not the home of the key.',
    doc: 'A caller, or another datacenter, names a home of the key that the reservation store does not confirm. See the runbook.',
  },
  'peer.refused': {
    http: 503,
    retryable: true,
    text: 'Another datacenter refused the credentials of this one.',
    doc: '`details.datacenter` says which. Both sides must have the same secret for each other in LEASEHOLD_PEER_TOKEN.',
  },
  'controller.stopping': {
    http: 503,
    retryable: true,
    text: 'This controller is stopping.',
    doc: 'Nothing was done. Send the request to another controller, or to this one when it runs again. The client library does this by itself.',
  },
  'store.unavailable': {
    http: 503,
    retryable: true,
    text: 'The database cannot be reached, or cannot work now.',
    doc: 'Nothing was changed. Try again; `leasehold doctor` shows more. When `details.reason` is `disk_full`, the disk of the database is full, or that of the controller: requests are answered again as soon as there is space.',
  },
  'store.not_permitted': {
    http: 500,
    retryable: false,
    text: 'The database role may not do this.',
    doc: 'The message names what was refused. "Database roles" in deployment.md lists the privileges that each part needs.',
  },
  'store.schema_foreign': {
    http: 500,
    retryable: false,
    text: 'The schema of the database holds tables of something else.',
    doc: 'Leasehold needs a schema of its own. Name an empty one, or one that does not exist, in LEASEHOLD_SCHEMA. Nothing was changed.',
  },
  'store.schema_newer': {
    http: 500,
    retryable: false,
    text: 'The database belongs to a newer version of Leasehold.',
    doc: 'A newer version has applied migrations that this version must not be started with. Start that version, or a later one. Controllers of this version that were running before keep running.',
  },
  'store.schema_changed': {
    http: 500,
    retryable: false,
    text: 'The database was made by other migrations than those of this version.',
    doc: 'A migration file differs from the one that was applied, by its SHA-256. Use the files of the release unchanged.',
  },
  'config.invalid': {
    http: 500,
    retryable: false,
    text: 'The configuration is not valid.',
    doc: 'Every problem is listed. Nothing was started.',
  },
  'internal.error': {
    http: 500,
    retryable: false,
    text: 'Something went wrong inside Leasehold.',
    doc: "The `incidentId` of the answer is in the controller's log, with the cause.",
  },
} as const satisfies Record<
  `${string}.${string}`,
  { http: number; retryable: boolean; text: string; doc: string }
>;

/** One of the codes of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof ERROR_CODES;

/**
 * What Leasehold throws when something other than an expected refusal happened. The code is the
 * type; `message` is public and never holds a secret; `cause` is for the log.
 */
export class LeaseError extends Error {
  readonly code: ErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(
    code: ErrorCode,
    message?: string,
    options: { details?: Record<string, unknown>; cause?: unknown } = {},
  ) {
    super(message ?? ERROR_CODES[code].text, { cause: options.cause });
    this.name = 'LeaseError';
    this.code = code;
    this.details = options.details ?? {};
  }

  /** Whether the same request may succeed if it is sent again unchanged. */
  get retryable(): boolean {
    return ERROR_CODES[this.code].retryable;
  }
}

/** Something that cannot be: a defect of Leasehold, not of its caller. */
export class InvariantError extends Error {
  override readonly name = 'InvariantError';
}

/** @throws {InvariantError} when the condition does not hold. */
export function invariant(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message);
}

/** Ends an exhaustive `switch`. */
export function assertNever(value: never): never {
  throw new InvariantError(`unexpected value ${JSON.stringify(value)}`);
}
