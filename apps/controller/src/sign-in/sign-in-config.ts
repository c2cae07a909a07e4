import {
  checkedText,
  consoleSecret,
  isHttpUrl,
  origin,
  sharedSecret,
  trustedProxies,
} from '@leasehold/service-kit/variables';
import { z } from 'zod';
import { groupRulesOf, groupRulesProblem, type GroupRule } from './group-roles.ts';

/** An identity provider that people may sign in with. */
export interface OidcConfig {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** What the sign-in page calls it. */
  readonly name: string;
  /** What is asked for, besides what every sign-in needs. */
  readonly scopes?: readonly string[];
  /** What groups may do; left out: people are invited, and administrators give them roles. */
  readonly groups?: { readonly claim: string; readonly rules: readonly GroupRule[] };
}

/** How people sign in, and which proxies are believed about where people come from. */
export interface SignInConfig {
  /** The one origin that browsers call: cookies are for it, and requests from others are refused. */
  readonly consoleOrigin: string;
  /** Signs cookies; null: a secret that is kept in the home. All controllers of a console share it. */
  readonly authSecret: string | null;
  /** What the console proves itself by; null: a secret that is kept in the home. */
  readonly consoleSecret: string | null;
  readonly oidc: OidcConfig | null;
  /** Addresses and networks whose `x-forwarded-for` is believed. */
  readonly trustedProxies: readonly string[];
}

/** The defaults when the environment sets nothing: a console on this machine. */
export const SIGN_IN_DEFAULTS: SignInConfig = {
  consoleOrigin: 'http://localhost:4601',
  authSecret: null,
  consoleSecret: null,
  oidc: null,
  trustedProxies: [],
};

/** The variables of the configuration; every value that is not valid is named by its variable. */
export const signInEnvironment = {
  LEASEHOLD_CONSOLE_ORIGIN: origin.default(SIGN_IN_DEFAULTS.consoleOrigin),
  LEASEHOLD_AUTH_SECRET: sharedSecret.optional(),
  LEASEHOLD_CONSOLE_SECRET: consoleSecret,
  LEASEHOLD_OIDC_ISSUER: z
    .string()
    .refine(isHttpUrl, 'must be an http:// or https:// URL, of the identity provider')
    .optional(),
  LEASEHOLD_OIDC_CLIENT_ID: z.string().min(1, 'must not be empty').optional(),
  LEASEHOLD_OIDC_CLIENT_SECRET: z.string().min(1, 'must not be empty').optional(),
  LEASEHOLD_OIDC_NAME: z.string().min(1, 'must not be empty').max(64).default('single sign-on'),
  LEASEHOLD_OIDC_SCOPES: z
    .string()
    .regex(/^[\x21-\x7e]+( [\x21-\x7e]+)*$/u, 'must be scopes, separated by single spaces')
    .optional(),
  LEASEHOLD_OIDC_ROLES: checkedText(groupRulesProblem).optional(),
  LEASEHOLD_OIDC_GROUPS_CLAIM: z
    .string()
    .max(255)
    .regex(/^\S+$/u, 'must be the name of a claim, such as groups or realm_access.roles')
    .optional(),
  LEASEHOLD_TRUSTED_PROXIES: trustedProxies,
};

type SignInValues = z.output<z.ZodObject<typeof signInEnvironment>>;

/** What is wrong with the values as a whole; each problem names its variable. */
export function signInProblems(values: SignInValues): string[] {
  const parts = [
    'LEASEHOLD_OIDC_ISSUER',
    'LEASEHOLD_OIDC_CLIENT_ID',
    'LEASEHOLD_OIDC_CLIENT_SECRET',
  ] as const;
  const missing = parts.filter((name) => values[name] === undefined);
  const more = [
    'LEASEHOLD_OIDC_SCOPES',
    'LEASEHOLD_OIDC_ROLES',
    'LEASEHOLD_OIDC_GROUPS_CLAIM',
  ] as const;
  if (missing.length === parts.length) {
    return more
      .filter((name) => values[name] !== undefined)
      .map((name) => `${name}: needs LEASEHOLD_OIDC_ISSUER`);
  }
  if (missing.length === 0) {
    const { LEASEHOLD_OIDC_GROUPS_CLAIM: claim, LEASEHOLD_OIDC_ROLES: roles } = values;
    const isIdle = claim !== undefined && roles === undefined;
    return isIdle ? ['LEASEHOLD_OIDC_GROUPS_CLAIM: needs LEASEHOLD_OIDC_ROLES'] : [];
  }
  return missing.map((name) => `${name}: must be set, as the others of LEASEHOLD_OIDC_* are`);
}

function groupsConfig(values: SignInValues): Pick<OidcConfig, 'scopes' | 'groups'> {
  const { LEASEHOLD_OIDC_SCOPES: scopes, LEASEHOLD_OIDC_ROLES: rules } = values;
  const claim = values.LEASEHOLD_OIDC_GROUPS_CLAIM ?? 'groups';
  return {
    ...(scopes === undefined ? {} : { scopes: scopes.split(' ') }),
    ...(rules === undefined ? {} : { groups: { claim, rules: groupRulesOf(rules) } }),
  };
}

/** The configuration that checked values describe. */
export function signInConfig(values: SignInValues): SignInConfig {
  const issuer = values.LEASEHOLD_OIDC_ISSUER;
  return {
    consoleOrigin: values.LEASEHOLD_CONSOLE_ORIGIN.toLowerCase(),
    authSecret: values.LEASEHOLD_AUTH_SECRET ?? null,
    consoleSecret: values.LEASEHOLD_CONSOLE_SECRET ?? null,
    oidc:
      issuer === undefined
        ? null
        : {
            issuer: issuer.replace(/\/+$/u, ''),
            clientId: values.LEASEHOLD_OIDC_CLIENT_ID ?? '',
            clientSecret: values.LEASEHOLD_OIDC_CLIENT_SECRET ?? '',
            name: values.LEASEHOLD_OIDC_NAME,
            ...groupsConfig(values),
          },
    trustedProxies: values.LEASEHOLD_TRUSTED_PROXIES,
  };
}
