/**
 * The bounds of everything that a caller may send. Bytes are bytes of UTF-8.
 * One place, so that the API, the CLI, the documentation and the tests cannot differ.
 */
export const LIMITS = {
  nameBytesMax: 255,
  tagBytesMax: 255,
  holderBytesMax: 255,
  namespaceBytesMax: 512,
  namespaceSegmentsMax: 16,
  /** A part of a name: as long as a name in a namespace is when it is printed. */
  searchTextBytesMax: 1_024,
  /** What ids are looked for in: a line of a log. */
  findTextBytesMax: 4_096,
  commentBytesMax: 1_024,
  reasonBytesMax: 1_024,
  metadataBytesMax: 16 * 1_024,
  metadataDepthMax: 16,
  /** To receive and to parse this much takes as long as one message may hold the event loop: see `MESSAGE_MS_MAX`. */
  bodyBytesMax: 1_024 * 1_024,
  pageSizeMax: 500,
  pageSizeDefault: 100,
  renewalsPerCallMax: 10_000,
  acquiresPerCallMax: 1_000,
  /** Leases that one request asks for together. */
  leasesTogetherMax: 64,
  /** How long one call waits. */
  waitMsMax: 120_000,
  /** The shortest call of a longer wait: shorter ones would take places in line without waiting there. */
  callMsMin: 100,
  /** How long a place in line is waited in, by call after call. */
  waitMsInLineMax: 7 * 24 * 60 * 60 * 1_000,
  waitMsConnectDefault: 10_000,
  idempotencyKeyBytesMax: 255,
  ttlMsMin: 1_000,
  ttlMsMax: 24 * 60 * 60 * 1_000,
  backendArgsMax: 64,
  backendArgBytesMax: 4_096,
  backendEnvMax: 64,
  backendEnvValueBytesMax: 4_096,
  lifetimeLimitSecondsMax: 366 * 24 * 60 * 60,
  idleStopSecondsMax: 30 * 24 * 60 * 60,
  programsPerDroneMax: 256,
  /** Backends of one drone at once. */
  capacityMax: 100_000,
  bulkItemsMax: 10_000,
  gatewayUserBytesMax: 255,
  /** Tokens travel in headers and addresses, which are short. */
  gatewayClaimsBytesMax: 2_048,
  /** The longest names and claims give a little less. */
  gatewayTokenBytesMax: 8_192,
  gatewayTokenSecondsMax: 30 * 24 * 60 * 60,
  gatewayTokenSecondsDefault: 60 * 60,
  /** Routes that a gateway asks for again by one call: as many as are checked within a message's time. */
  gatewayUsesPerCallMax: 5_000,
  /** In force at a time. All of them are sent to each gateway that is new. */
  gatewayRevocationsMax: 10_000,
  /** What holders are told about the database and send back. */
  witnessBytesMax: 512,
  reservationKeyBytesMax: 1_024,
  reservationKeyPartsMax: 32,
  /** Callers that hold one scope at once. */
  permitsMax: 1_000,
  sharedHoldersMax: 1_000,
  /** How often a key can move and still be found by its first reservation. */
  reservationChainMax: 64,
  /** Freezes of a datacenter that are neither over nor removed. */
  freezesMax: 1_000,
  /** Those of one caller who is limited to namespaces. */
  freezesOfOneMax: 100,
  /** Who may override one freeze. */
  freezePeopleMax: 64,
  freezeScheduleBytesMax: 128,
  freezeZoneBytesMax: 64,
  /** How long a window that comes again lasts. */
  freezeMsMin: 5 * 60 * 1_000,
  freezeMsMax: 31 * 24 * 60 * 60 * 1_000,
  /** How long a window that comes once lasts. */
  freezeOnceMsMax: 366 * 24 * 60 * 60 * 1_000,
} as const;

/**
 * Calls that repeat for as long as something is held or alive. They are a part of a trace that asks for them,
 * and begin none: each second's renewals would hide all that happens once.
 */
const PERIODIC = new Set([
  'keys.renew',
  'leases.heartbeat',
  'leases.declare',
  'environments.heartbeat',
  'drones.heartbeat',
  'drones.ack',
  'gateway.sync',
  'peer.ping',
]);

export function isPeriodicCall(path: string): boolean {
  return PERIODIC.has(path);
}

/**
 * Calls that are made so often that they take a short way over a WebSocket: `lane.ts` of the client,
 * `callDirectly` of the API.
 */
export const HOT_CALLS = [
  'keys.connect',
  'keys.renew',
  'leases.acquire',
  'leases.acquireMany',
  'leases.heartbeat',
  'leases.release',
  'leases.releaseMany',
  'leases.cancel',
  'drones.heartbeat',
] as const;

/** What showed that a database was restored, or failed over with loss, in words that follow "because". */
export const HOLD_OFF_CAUSES = {
  /** The system identifier: a dump was restored into another cluster. */
  system_identifier: 'it is another cluster',
  /** The timeline: a standby was promoted, or a backup was recovered to a moment. */
  timeline: 'its timeline has changed',
  /** A process that went on running, or was started again, had seen more in it. */
  controller: 'a controller had seen a later state',
  /** A drone or a client brought back what it had been told. */
  holder: 'a drone or a client had seen a later state',
  /** Another database is where the process had one. */
  replaced: 'another database has taken its place',
} as const;

export type HoldOffCause = keyof typeof HOLD_OFF_CAUSES;
