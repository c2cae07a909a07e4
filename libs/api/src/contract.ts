/**
 * What travels: every input as a strict schema (an unknown field is an error), and the types of the
 * answers. Browser-safe: it loads neither the routers nor a database.
 */
export * from './contract/audit.ts';
export * from './contract/backends.ts';
export * from './contract/common.ts';
export * from './contract/drones.ts';
export * from './contract/fleet.ts';
export * from './contract/keys.ts';
export * from './contract/tokens.ts';
