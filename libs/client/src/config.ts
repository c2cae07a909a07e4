/** The one place where the library reads the environment. */
import { LeaseholdCallError } from './transport/errors.ts';

/**
 * What the environment sets, for an option that was not given.
 * @throws {LeaseholdCallError} `config.invalid`.
 */
export function setting(variable: 'LEASEHOLD_URL' | 'LEASEHOLD_TOKEN', option: string): string {
  const value = process.env[variable] ?? '';
  if (value !== '') return value;
  throw new LeaseholdCallError('config.invalid', {
    message: `${variable} is not set.`,
    hint: `Set it, or pass \`${option}\` to createLeasehold.`,
  });
}
