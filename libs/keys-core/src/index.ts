/** The pure part of Leasehold: it runs anywhere, reads no clock and opens nothing. */
export * from './kernel/clock.ts';
export * from './kernel/drone-status.ts';
export * from './kernel/errors.ts';
export * from './kernel/events.ts';
export * from './kernel/fencing-token.ts';
export * from './kernel/ladder.ts';
export * from './kernel/lease.ts';
export * from './kernel/limits.ts';
export * from './kernel/outcomes.ts';
export * from './kernel/resource.ts';
export * from './kernel/roles.ts';
export * from './kernel/text.ts';
export * from './kernel/backend-state.ts';
export * from './holder/backoff.ts';
export * from './holder/lease-keeper.ts';
