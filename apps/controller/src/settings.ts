/** The configuration in effect, as administrators read it: no secret is ever in it. */
import { fairUseFrom } from '@leasehold/keys-core';
import type { Setting } from '@leasehold/api';
import { shownUrl, type Environment } from '@leasehold/service-kit';

const SECRET = /SECRET|PASSWORD|TOKEN/u;

/** Every variable of the controller with its value, in the order of docs/reference/configuration.md. */
export function settingsOf(
  names: readonly string[],
  values: Readonly<Record<string, unknown>>,
  environment: Environment,
): Setting[] {
  const own = names.map((name): Setting => {
    const value = values[name];
    const isSet = isGiven(environment[name]) || isGiven(environment[`${name}_FILE`]);
    const isSecret = SECRET.test(name);
    const isShown = value !== undefined && !isSecret;
    return { name, value: isShown ? textOf(name, value) : null, isSecret, isSet };
  });
  return [...own, ...limitsOf(environment)];
}

function isGiven(text: string | undefined): boolean {
  return text !== undefined && text !== '';
}

function textOf(name: string, value: unknown): string {
  // Addresses may hold a password, and that of a webhook may be a secret as a whole.
  if (typeof value !== 'string') return JSON.stringify(value);
  if (!name.endsWith('URL')) return value;
  return name === 'LEASEHOLD_WEBHOOK_URL' ? new URL(value).origin : shownUrl(value);
}

/** What a caller of each role may use. */
function limitsOf(environment: Environment): Setting[] {
  const { limits, anonymous } = fairUseFrom(environment).config;
  return Object.entries({ ...limits, peer: null, anonymous }).flatMap(([role, of]) => {
    // Nobody sets it.
    if (of === null) return [];
    const name = `LEASEHOLD_LIMIT_${role.toUpperCase()}`;
    const pairs = Object.entries(of).map(([limit, number]) => `${limit}=${String(number)}`);
    return { name, value: pairs.join(','), isSecret: false, isSet: isGiven(environment[name]) };
  });
}
