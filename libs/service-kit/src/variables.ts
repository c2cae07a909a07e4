/** The variables of an environment that several processes read: each has one form and one text. */
import { z } from 'zod';
import { isTrustedProxy } from './connections.ts';
import { controllerUrlsOf, controllerUrlsProblem } from './controllers.ts';
import { schemaProblem } from './database-url.ts';
import { LOG_LEVELS } from './logger.ts';

/** What `schema` describes, if it has no problem besides. */
function checked<Value>(schema: z.ZodType<Value>, problemOf: (value: Value) => string | undefined) {
  return schema.superRefine((value, context) => {
    const problem = problemOf(value);
    if (problem !== undefined) context.addIssue(problem);
  });
}

/** A text that has no problem. */
export const checkedText = (problemOf: (text: string) => string | undefined) =>
  checked(z.string(), problemOf);

export function wholeNumber(min: number, max: number): z.ZodType<number> {
  return z
    .string()
    .refine((text) => /^\d{1,12}$/u.test(text) && Number(text) >= min && Number(text) <= max, {
      error: `must be a whole number from ${String(min)} to ${String(max)}`,
    })
    .transform(Number);
}

/** The items of a list with commas; empty ones are left out. */
export function listOf(text: string): string[] {
  return text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== '');
}

/** Credentials are no part of an address that is printed and logged: they have variables of their own. */
export function isHttpUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password } = new URL(text);
  return ['http:', 'https:'].includes(protocol) && `${username}${password}` === '';
}

/** An origin has no path, not even a slash. */
export const origin = z
  .string()
  .refine(
    (text) => isHttpUrl(text) && new URL(text).origin === text.toLowerCase(),
    'must be an origin, as in https://console.example.com: no path, no slash',
  );

/** `*.rooms.example.com`, of which all after the star is kept: what follows the id of a key in the name of its host. */
export const keyHosts = checkedText((text) =>
  /^\*(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?){2,}(?::\d{1,5})?$/iu.test(text)
    ? undefined
    : 'must be a name with a star in front, as in *.rooms.example.com',
).transform((text) => text.slice(1).toLowerCase());

export const port = wholeNumber(0, 65_535);

export const controllerUrls = checkedText(controllerUrlsProblem).transform(controllerUrlsOf);

/** The same in a file: an array instead of a list with commas. */
export const controllerUrlArray = checked(z.array(z.string()), controllerUrlsProblem).transform(
  controllerUrlsOf,
);

/** A token, as people are given it. */
export const tokenText = z
  .string()
  .regex(/^lh_[A-Za-z0-9_-]{43}$/u, 'must be a token, lh_ and 43 characters');

export const logLevel = z
  .enum(LOG_LEVELS, { error: `must be one of ${LOG_LEVELS.join(', ')}` })
  .default('info');

const SECRET_LENGTH_MIN = 32;
const SECRET_LENGTH_MAX = 1_024;

/** A secret that several processes have. */
export const sharedSecret = z
  .string()
  .min(SECRET_LENGTH_MIN, `must have at least ${String(SECRET_LENGTH_MIN)} characters`)
  .max(SECRET_LENGTH_MAX, `must have at most ${String(SECRET_LENGTH_MAX)} characters`);

/** The secret that the console proves itself by, in a header. */
export const consoleSecret = sharedSecret
  .regex(/^[\x21-\x7e]*$/u, 'must have neither spaces nor characters beyond ASCII')
  .optional();

const PROXIES_MAX = 100;

/** Addresses and networks of proxies whose `x-forwarded-for` is believed. */
export const trustedProxies = z
  .string()
  .transform(listOf)
  .refine(
    (list) => list.length <= PROXIES_MAX && list.every(isTrustedProxy),
    `must be a list of at most ${String(PROXIES_MAX)} addresses and networks, as in 10.0.0.7,2001:db8::/64`,
  )
  .default([]);

const DAY_MS = 86_400_000;
const notEmpty = z.string().min(1, 'must not be empty');
const rungMs = wholeNumber(1, DAY_MS).optional();

/** What a controller is started with, by itself or by `leasehold up`. */
export const controllerVariables = {
  DATABASE_URL: z
    .url({ protocol: /^postgres(?:ql)?$/u, error: 'must be a postgresql:// URL' })
    .optional(),
  LEASEHOLD_SCHEMA: checkedText(schemaProblem).optional(),
  LEASEHOLD_HOME: notEmpty.default('.leasehold'),
  LEASEHOLD_HOST: notEmpty.default('127.0.0.1'),
  LEASEHOLD_PORT: port.default(4_600),
  LEASEHOLD_PRESET: z
    .enum(['standard', 'fast'], { error: 'must be standard or fast' })
    .default('standard'),
  LEASEHOLD_KEY_RENEW_MS: rungMs,
  LEASEHOLD_KEY_SOFT_MS: rungMs,
  LEASEHOLD_KEY_HARD_MS: rungMs,
  LEASEHOLD_KEY_EXPIRE_MS: rungMs,
  LEASEHOLD_HEARTBEAT_MS: wholeNumber(100, DAY_MS).optional(),
  LEASEHOLD_EVENT_RETENTION_DAYS: wholeNumber(1, 3_650).default(30),
  LEASEHOLD_LOG_LEVEL: logLevel,
};
