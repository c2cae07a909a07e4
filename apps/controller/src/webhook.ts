/**
 * Tells a webhook of alarms that begin and end, and of chosen entries of the audit: one message after another, each until
 * it arrives or has failed {@link TRIES_MAX} times. A message may arrive twice, and has the same id then. Messages of the
 * format `json` are signed as Standard Webhooks (https://www.standardwebhooks.com) describes.
 */
import { createHmac, randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { WebhookService } from '@leasehold/api';
import { AUDIT_ACTIONS, LeaseError, printableText, type AuditAction } from '@leasehold/keys-core';
import {
  nextAudit,
  openWebhook,
  readWebhook,
  recordWebhookStep,
  type AuditView,
  type WebhookAlarm,
  type WebhookProgress,
  type WebhookState,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { HealthConcern, StatsService } from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import { isHttpUrl, sharedSecret } from '@leasehold/service-kit/variables';
import { z } from 'zod';

const ANSWER_MS_MAX = 10_000;
/** For how long a message is its controller's to send: longer than it waits for the answer and records it. */
const CLAIMED_MS = 3 * ANSWER_MS_MAX;
const FIRST_WAIT_MS = 5_000;
const WAIT_MS_MAX = 300_000;
/** With the waits between them some 40 minutes. */
const TRIES_MAX = 12;
/** How many messages are sent in one round. */
const MESSAGES_MAX = 50;

interface Message {
  readonly id: string;
  readonly type: 'alarm.began' | 'alarm.ended' | 'audit' | 'test';
  readonly text: string;
  readonly data: unknown;
}

interface WebhookDeps {
  readonly store: Pick<Store, 'general'>;
  readonly config: WebhookConfig | null;
  readonly datacenter: string;
  readonly stats: Pick<StatsService, 'overview'>;
  readonly log: Pick<Logger, 'warn'>;
  readonly onOutcome: (outcome: 'sent' | 'failed' | 'dropped') => void;
}

/** What the webhook is told in the background, and what people ask about it. */
export interface Webhook {
  readonly isConfigured: boolean;
  readonly service: WebhookService;
  /** @param onMore called when more is to be told than one round tells. */
  runOnce(signal: AbortSignal, onMore?: () => void): Promise<void>;
}

export function createWebhook(deps: WebhookDeps): Webhook {
  const { config, store, datacenter } = deps;
  const known: Known = { alarms: undefined, countedAt: undefined };
  return {
    isConfigured: config !== null,
    async runOnce(signal, onMore) {
      if (config === null) return;
      const round: Round = { failure: undefined };
      let sent = 0;
      while (sent < MESSAGES_MAX && !signal.aborted) {
        if (!(await tellNext({ ...deps, config, known, round }, signal))) break;
        sent += 1;
      }
      if (round.failure !== undefined) throw round.failure;
      if (sent === MESSAGES_MAX) onMore?.();
    },
    service: {
      async get() {
        if (config === null) return null;
        const state = await readWebhook(store.general);
        const alarms = Object.values(state?.alarms ?? {});
        const { url, format, actions } = config;
        return {
          origin: new URL(url).origin,
          format,
          actions,
          alarms: alarms.flatMap(({ isTold, text }) => (isTold ? [text] : [])),
          tries: Math.max(state?.tries ?? 0, ...alarms.map(({ message }) => message?.tries ?? 0)),
          lastError: state?.lastError ?? null,
          sentAt: state?.sentAt ?? null,
        };
      },
      async test() {
        if (config === null) {
          throw new LeaseError('webhook.not_configured');
        }
        const text = `A test of the webhook of the datacenter ${datacenter}.`;
        const error = await send(
          { config, datacenter },
          { id: `test_${randomUUID()}`, type: 'test', text, data: {} },
        );
        if (error !== undefined) {
          throw new LeaseError('webhook.failed', `The webhook did not take the message: ${error}`);
        }
      },
    },
  };
}

/** The alarms as this controller last saw or left them, and the overview that it had when others had changed them. */
interface Known {
  alarms: WebhookProgress['alarms'] | undefined;
  countedAt: string | undefined;
}

/** The overview fails once in a round: each try may take long. */
interface Round {
  failure: Error | undefined;
}

type Telling = WebhookDeps & {
  readonly config: WebhookConfig;
  readonly known: Known;
  readonly round: Round;
};

/** The next message, with what is recorded before it is sent, when it has arrived or is dropped, and when it has failed. */
interface Next {
  readonly message: Message;
  /** How often it has failed. */
  readonly tries: number;
  readonly claimed: Partial<WebhookProgress>;
  readonly arrived: Partial<WebhookProgress>;
  readonly failed: Partial<WebhookProgress>;
}

/** What is passed over without a message. */
interface Passed {
  readonly message: null;
  readonly arrived: Partial<WebhookProgress>;
}

type Step = Parameters<typeof recordWebhookStep>[2];

/**
 * Sends the next message, if there is one and it is time. Several controllers may do so at once, in a hold-off: the one
 * sends that has claimed the message. @returns whether there may be another one.
 */
async function tellNext(deps: Telling, signal: AbortSignal): Promise<boolean> {
  const { store, known } = deps;
  const state = await openWebhook(store.general);
  if (state.waitMs > 0) return false;
  const next = await nextStep(deps, state);
  if (next === undefined) return false;
  const record = async (from: WebhookState, step: Step): Promise<WebhookState | null> => {
    const recorded = await recordWebhookStep(store.general, from, step);
    if (recorded !== null) known.alarms = recorded.alarms;
    return recorded;
  };
  if (next.message === null) {
    await record(state, { ...next.arrived, waitMs: 0 });
    return false;
  }
  const claimed = await record(state, { ...next.claimed, waitMs: CLAIMED_MS });
  if (claimed === null) return false;
  const error = await send(deps, next.message, signal);
  if (error === undefined) {
    deps.onOutcome('sent');
    const recorded = await record(claimed, {
      ...next.arrived,
      waitMs: 0,
      isSent: true,
      ...(isFailing({ ...claimed, ...next.arrived }) ? {} : { lastError: null }),
    });
    return recorded !== null;
  }
  // Another controller goes on, or this one when it is started again.
  await record(claimed, signal.aborted ? { waitMs: 0 } : failedStep(deps, next, error));
  return false;
}

/** Whether a message has failed and is to be sent again. */
function isFailing({ tries, alarms }: WebhookProgress): boolean {
  return tries > 0 || Object.values(alarms).some(({ message }) => (message?.tries ?? 0) > 0);
}

function failedStep(
  { config, log, onOutcome }: Telling,
  { message: { id }, tries: triesBefore, arrived, failed }: Next,
  error: string,
): Step {
  const tries = triesBefore + 1;
  const isDropped = tries >= TRIES_MAX;
  onOutcome(isDropped ? 'dropped' : 'failed');
  const where = new URL(config.url).origin;
  log.warn({ where, id, tries, error }, isDropped ? DROPPED : FAILED);
  return {
    ...(isDropped ? arrived : failed),
    waitMs: Math.min(WAIT_MS_MAX, FIRST_WAIT_MS * 2 ** (tries - 1)),
    lastError: `${id}: ${error}`,
  };
}

const FAILED = 'the webhook did not take a message; it is sent again';
const DROPPED = 'the webhook has not taken a message for too long; it is not sent';

/** What comes next; undefined when there is nothing to tell or to pass over. */
async function nextStep(deps: Telling, state: WebhookState): Promise<Next | Passed | undefined> {
  const concerns = await readConcerns(deps, state);
  return (concerns && nextAlarm(state.alarms, concerns)) ?? nextOfAudit(deps, state);
}

/**
 * What needs attention; undefined when that is not known, or not certainly newer than what the webhook was told of it:
 * an overview is some seconds old, and another controller may have judged by a newer one.
 */
async function readConcerns(
  { stats, known, round }: Telling,
  { alarms }: WebhookState,
): Promise<readonly HealthConcern[] | undefined> {
  if (round.failure !== undefined) return undefined;
  try {
    const { health, countedAt } = await stats.overview({ windowMinutes: 5 });
    if (!isDeepStrictEqual(alarms, known.alarms)) Object.assign(known, { alarms, countedAt });
    return countedAt === known.countedAt ? undefined : health.concerns;
  } catch (error) {
    round.failure = error as Error;
    return undefined;
  }
}

function nextAlarm(
  alarms: WebhookProgress['alarms'],
  concerns: readonly HealthConcern[],
): Next | Passed | undefined {
  const began = concerns.find((concern) => alarms[alarmKey(concern)]?.isTold !== true);
  if (began !== undefined) {
    const [key, text] = [alarmKey(began), alarmText(began)];
    const alarm = { text, isTold: false, message: alarms[key]?.message ?? null };
    const told = { text, isTold: true, message: null };
    return about({ key, alarm, text, data: began }, alarms, { ...alarms, [key]: told });
  }
  const present = concerns.map(alarmKey);
  // Its end has failed, and it is not over any more.
  const again = Object.entries(alarms).find(
    ([key, { message }]) => message !== null && present.includes(key),
  );
  if (again !== undefined) {
    const [key, alarm] = again;
    return {
      message: null,
      arrived: { alarms: { ...alarms, [key]: { ...alarm, message: null } } },
    };
  }
  const without = (key: string): WebhookProgress['alarms'] =>
    Object.fromEntries(Object.entries(alarms).filter(([other]) => other !== key));
  const over = Object.entries(alarms).filter(([key]) => !present.includes(key));
  // Those of a group that is few again are named, each an alarm of its own.
  const untold = over.find(
    ([key, { isTold }]) => !isTold || present.some((one) => isOfGroup(one, key)),
  );
  if (untold !== undefined) return { message: null, arrived: { alarms: without(untold[0]) } };
  const ended = over.find(([key]) => !present.some((one) => isOfGroup(key, one)));
  if (ended === undefined) return undefined;
  const [key, alarm] = ended;
  const text = `Over: ${alarm.text}`;
  return about({ key, alarm, text, data: {} }, alarms, without(key));
}

interface AlarmMessage {
  readonly key: string;
  readonly alarm: WebhookAlarm;
  readonly text: string;
  readonly data: object;
}

/** Its id is recorded before it is sent, and is the same until it has arrived. */
function about(
  { key, alarm, text, data }: AlarmMessage,
  alarms: WebhookProgress['alarms'],
  arrived: WebhookProgress['alarms'],
): Next {
  // Without a dot, which stands between the parts of what is signed.
  const { id, tries } = alarm.message ?? { id: `alarm_${randomUUID()}`, tries: 0 };
  const having = (count: number): Partial<WebhookProgress> => ({
    alarms: { ...alarms, [key]: { ...alarm, message: { id, tries: count } } },
  });
  const type = alarm.isTold ? 'alarm.ended' : 'alarm.began';
  return {
    message: { id, type, text, data: { alarm: key, ...data } },
    tries,
    claimed: having(tries),
    arrived: { alarms: arrived },
    failed: having(tries + 1),
  };
}

async function nextOfAudit(
  { store, config: { actions } }: Telling,
  { auditId, tries }: WebhookState,
): Promise<Next | Passed | undefined> {
  const { entry, throughId } = await nextAudit(store.general, { after: auditId, actions });
  const arrived = { auditId: throughId, tries: 0 };
  if (entry === null) return throughId === auditId ? undefined : { message: null, arrived };
  return { message: audited(entry), tries, claimed: {}, arrived, failed: { tries: tries + 1 } };
}

function audited(entry: AuditView): Message {
  return { id: `audit_${entry.id}`, type: 'audit', text: auditText(entry), data: entry };
}

/** Sends one message. @returns what went wrong; undefined once it has arrived. */
async function send(
  { config, datacenter }: Pick<Telling, 'config' | 'datacenter'>,
  { id, type, text, data }: Message,
  signal?: AbortSignal,
): Promise<string | undefined> {
  const timestamp = Math.floor(Date.now() / 1_000);
  const body =
    config.format === 'slack'
      ? { text: slackText(`Leasehold (${datacenter}): ${text}`) }
      : { type, timestamp: new Date(timestamp * 1_000).toISOString(), datacenter, text, data };
  const sent = JSON.stringify(body);
  try {
    const answer = await fetch(config.url, {
      method: 'POST',
      redirect: 'error',
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': String(timestamp),
        ...signed(config.secret, `${id}.${String(timestamp)}.${sent}`),
      },
      body: sent,
      signal: AbortSignal.any([AbortSignal.timeout(ANSWER_MS_MAX), ...(signal ? [signal] : [])]),
    });
    await answer.body?.cancel();
    return answer.ok ? undefined : `it answered ${String(answer.status)}`;
  } catch (error) {
    return failureText(error as Error);
  }
}

/** A host with several addresses fails with an error for each, and no text of its own. */
export function failureText({ cause, message }: Error): string {
  const [first] = cause instanceof AggregateError ? (cause.errors as Error[]) : [cause];
  return first instanceof Error && first.message !== '' ? first.message : message;
}

/** Without links and mentions: names and reasons are written by callers, who may not speak to a channel. */
function slackText(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

/** The signature of Standard Webhooks; a secret with its prefix is base64, any other one is taken as it is. */
function signed(secret: string | null, content: string): Record<string, string> {
  if (secret === null) return {};
  const key = secret.startsWith(SECRET_PREFIX)
    ? Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64')
    : Buffer.from(secret);
  return {
    'webhook-signature': `v1,${createHmac('sha256', key).update(content).digest('base64')}`,
  };
}

/** What an alarm is about: a concern whose number changes stays the same alarm. */
function alarmKey({ kind, droneId, face }: HealthConcern): string {
  return [kind, droneId ?? face].filter((part) => part !== null).join(':');
}

/** Whether an alarm is about one of a group: drones are named while they are few, and are a group then. */
function isOfGroup(one: string, group: string): boolean {
  return one.startsWith(`${group}:`);
}

const TEXTS: Readonly<Record<HealthConcern['kind'], (count: number) => string>> = {
  hold_off: () => 'The database was restored: nothing new is granted for now.',
  clock_jump: () => "The database's clock has stepped.",
  reaper_late: () => 'Expiries are recorded late.',
  events_late: () => 'Events are late.',
  no_drone_ready: () => 'No drone can take a new backend.',
  drone_unreachable: (count) => `${String(count)} drones are unreachable.`,
  drone_lost: (count) => `${String(count)} drones are lost.`,
  renewals_refused: (count) => `${String(count)} renewals were refused within five minutes.`,
  crash_loops: (count) =>
    count === 1
      ? 'The backends of a key fail one after another.'
      : `The backends of ${String(count)} keys fail one after another.`,
  callbacks_failing: (count) => `${String(count)} callbacks of expired leases fail.`,
  expiring: (count) => `${String(count)} grants are not renewed any more.`,
};

const DRONE_STATES: Partial<Record<HealthConcern['kind'], string>> = {
  drone_unreachable: 'unreachable',
  drone_lost: 'lost',
};

function alarmText({ kind, count, droneId }: HealthConcern): string {
  const state = DRONE_STATES[kind];
  if (droneId === null || state === undefined) return TEXTS[kind](count);
  return `The drone ${printableText(droneId)} is ${state}.`;
}

/** `ann@example.com: keys.revoke of key:room-1: "stuck"`. */
function auditText({ actor, action, resource, reason }: AuditView): string {
  const why = reason === null || reason === '' ? '' : `: "${reason}"`;
  return printableText(`${actor}: ${action} of ${resource}${why}`);
}

/** Where alarms and chosen entries of the audit are sent. */
export interface WebhookConfig {
  readonly url: string;
  readonly format: 'json' | 'slack';
  /** Signs what is sent as `json`; null for `slack`, whose address is the secret. */
  readonly secret: string | null;
  /** The actions of the audit that are sent. */
  readonly actions: readonly AuditAction[];
}

/** What a secret in the form of Standard Webhooks begins with; the rest is the key, in base64. */
const SECRET_PREFIX = 'whsec_';
const KEY_BYTES_MIN = 24;

/** Text that is not base64 would be decoded to a shorter key, or to none. */
function isKey(secret: string): boolean {
  if (!secret.startsWith(SECRET_PREFIX)) return true;
  const text = secret.slice(SECRET_PREFIX.length);
  const key = Buffer.from(text, 'base64');
  const bare = text.replace(/={1,2}$/u, '');
  return key.length >= KEY_BYTES_MIN && key.toString('base64').replace(/=+$/u, '') === bare;
}

/** The variables of the webhook. */
export const webhookEnvironment = {
  LEASEHOLD_WEBHOOK_URL: z
    .string()
    .refine(isHttpUrl, 'must be an http:// or https:// URL without a user and a password')
    .optional(),
  LEASEHOLD_WEBHOOK_FORMAT: z
    .enum(['json', 'slack'], { error: 'must be json or slack' })
    .default('json'),
  LEASEHOLD_WEBHOOK_SECRET: sharedSecret
    .refine(
      isKey,
      `with ${SECRET_PREFIX} at its beginning the rest must be base64 of at least ${String(KEY_BYTES_MIN)} bytes`,
    )
    .optional(),
  LEASEHOLD_WEBHOOK_AUDIT: z
    .string()
    .default('')
    .transform((text) => text.split(',').flatMap((part) => part.trim() || []))
    .refine(
      (patterns) => patterns.every((pattern) => actionsOf(pattern).length > 0),
      'must be actions of the audit, separated by commas, such as keys.revoke, or all of a kind, such as tokens.*',
    ),
};

type WebhookValues = z.output<z.ZodObject<typeof webhookEnvironment>>;

/** What is wrong with the values as a whole; each problem names its variable. */
export function webhookProblems(values: WebhookValues): string[] {
  const { LEASEHOLD_WEBHOOK_URL: url, LEASEHOLD_WEBHOOK_SECRET: secret } = values;
  if (url === undefined) {
    return secret === undefined && values.LEASEHOLD_WEBHOOK_AUDIT.length === 0
      ? []
      : ['LEASEHOLD_WEBHOOK_URL: must be set, as the others of LEASEHOLD_WEBHOOK_* are'];
  }
  return secret === undefined && values.LEASEHOLD_WEBHOOK_FORMAT === 'json'
    ? ['LEASEHOLD_WEBHOOK_SECRET: must be set, because messages of the format json are signed']
    : [];
}

/** The configuration that checked values describe; null without a webhook. */
export function webhookConfig(values: WebhookValues): WebhookConfig | null {
  const url = values.LEASEHOLD_WEBHOOK_URL;
  if (url === undefined) return null;
  const actions = new Set(values.LEASEHOLD_WEBHOOK_AUDIT.flatMap(actionsOf));
  return {
    url,
    format: values.LEASEHOLD_WEBHOOK_FORMAT,
    secret: values.LEASEHOLD_WEBHOOK_SECRET ?? null,
    actions: [...actions],
  };
}

/** The actions that `keys.revoke`, `keys.*` or `*` stands for. */
function actionsOf(pattern: string): AuditAction[] {
  if (pattern === '*') return [...AUDIT_ACTIONS];
  if (!pattern.endsWith('.*')) return AUDIT_ACTIONS.filter((action) => action === pattern);
  return AUDIT_ACTIONS.filter((action) => action.startsWith(pattern.slice(0, -1)));
}
