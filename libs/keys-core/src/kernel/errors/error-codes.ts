import { ACCESS_CODES } from './access-codes.ts';
import { ACTIVITY_CODES } from './activity-codes.ts';
import { FLEET_CODES } from './fleet-codes.ts';
import { KEY_CODES } from './key-codes.ts';
import { LEASE_CODES } from './lease-codes.ts';
import { PROCESS_CODES } from './process-codes.ts';
import { REQUEST_CODES } from './request-codes.ts';
import { RESERVATION_CODES } from './reservation-codes.ts';

const CODES = {
  ...REQUEST_CODES,
  ...ACCESS_CODES,
  ...KEY_CODES,
  ...LEASE_CODES,
  ...FLEET_CODES,
  ...ACTIVITY_CODES,
  ...RESERVATION_CODES,
  ...PROCESS_CODES,
};

/** One of the codes of {@link ERROR_CODES}. */
export type ErrorCode = keyof typeof CODES;

/**
 * Every code an error of Leasehold can carry, by area. Expected outcomes are not here: a
 * refused grant or renewal is a value with an `outcome`. `docs/errors.md` is generated from this table.
 */
export const ERROR_CODES = Object.fromEntries(
  Object.entries(CODES).map(([code, entry]) => [code, { retryable: false, ...entry }]),
) as { readonly [Code in ErrorCode]: (typeof CODES)[Code] & { readonly retryable: boolean } };
