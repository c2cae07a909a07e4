/**
 * Tells a webhook of alarms that begin and end, and of chosen entries of the audit: one message after another, each until
 * it arrives or has failed {@link TRIES_MAX} times. A message may arrive twice, and has the same id then. Messages of the
 * format `json` are signed as Standard Webhooks (https://www.standardwebhooks.com) describes.
 */
import { createHash, createHmac, randomUUID } from 'node:crypto';
import type { WebhookService } from '@leasehold/api';
import { AUDIT_ACTIONS, LeaseError, printableText, type AuditAction } from '@leasehold/keys-core';
import {
  nextAudit,
  openWebhook,
  readWebhook,
  recordWebhookStep,
  type AuditView,
  type WebhookState,
} from '@leasehold/keys-core/access';
import type { Store } from '@leasehold/keys-core/postgres';
import type { HealthConcern, StatsService } from '@leasehold/keys-core/stats';
import type { Logger } from '@leasehold/service-kit';
import { isHttpUrl, sharedSecret } from '@leasehold/service-kit/variables';
import { z } from 'zod';

const ANSWER_MS_MAX = 10_000;
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
  return {
    isConfigured: config !== null,
    async runOnce(signal, onMore) {
      if (config === null) return;
      for (let sent = 0; sent < MESSAGES_MAX; sent += 1) {
        if (signal.aborted || !(await tellNext({ ...deps, config }, signal))) return;
      }
      onMore?.();
    },
    service: {
      async get() {
        if (config === null) return null;
        const state = await readWebhook(store.general);
        const { url, format, actions } = config;
        return {
          origin: new URL(url).origin,
          format,
          actions,
          alarms: Object.values(state?.alarms ?? {}),
          tries: state?.tries ?? 0,
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

type Telling = WebhookDeps & { readonly config: WebhookConfig };

/** Sends the next message, if there is one and it is time. @returns whether there may be another one. */
async function tellNext(deps: Telling, signal: AbortSignal): Promise<boolean> {
  const { store, config } = deps;
  const state = await openWebhook(store.general);
  if (state.waitMs > 0) return false;
  const next = await nextStep(deps, state);
  if (next === undefined) return false;
  const { message, ...come } = next;
  if (message === undefined) {
    await recordWebhookStep(store.general, state, { ...come, failure: null, isSent: false });
    return false;
  }
  const error = await send(deps, message, signal);
  // Another controller goes on, or this one when it is started again.
  if (signal.aborted && error !== undefined) return false;
  if (error === undefined) {
    deps.onOutcome('sent');
    return recordWebhookStep(store.general, state, { ...come, failure: null, isSent: true });
  }
  const tries = triesBefore(state, message) + 1;
  const isDropped = tries >= TRIES_MAX;
  deps.onOutcome(isDropped ? 'dropped' : 'failed');
  const where = new URL(config.url).origin;
  deps.log.warn({ where, id: message.id, tries, error }, isDropped ? DROPPED : FAILED);
  const waitMs = Math.min(WAIT_MS_MAX, FIRST_WAIT_MS * 2 ** (tries - 1));
  await recordWebhookStep(store.general, state, {
    ...(isDropped ? come : state),
    failure: { tries: isDropped ? 0 : tries, error: `${message.id}: ${error}`, waitMs },
    isSent: false,
  });
  return false;
}

/** How often a message has failed: another one may have come before the one that failed last. */
function triesBefore({ tries, lastError }: WebhookState, { id }: Message): number {
  return lastError?.startsWith(`${id}: `) === true ? tries : 0;
}

const FAILED = 'the webhook did not take a message; it is sent again';
const DROPPED = 'the webhook has not taken a message for too long; it is not sent';

/** The next message, and the state once it has arrived; undefined when there is nothing to tell or to pass over. */
async function nextStep(
  { store, config, stats }: Telling,
  state: WebhookState,
): Promise<
  (Pick<WebhookState, 'auditId' | 'alarms'> & { readonly message?: Message }) | undefined
> {
  const { auditId, alarms } = state;
  const { health } = await stats.overview({ windowMinutes: 5 });
  const began = health.concerns.find((concern) => alarms[alarmKey(concern)] === undefined);
  if (began !== undefined) {
    const [key, text] = [alarmKey(began), alarmText(began)];
    const message = alarmMessage(state, 'began', { key, text, data: began });
    return { auditId, alarms: { ...alarms, [key]: text }, message };
  }
  const present = health.concerns.map(alarmKey);
  const without = (key: string): WebhookState['alarms'] =>
    Object.fromEntries(Object.entries(alarms).filter(([other]) => other !== key));
  // Those of a group that is few again are named, each an alarm of its own.
  const few = Object.keys(alarms).find(
    (key) => !present.includes(key) && present.some((one) => isOfGroup(one, key)),
  );
  if (few !== undefined) return { auditId, alarms: without(few) };
  const ended = Object.entries(alarms).find(
    ([key]) => !present.some((one) => one === key || isOfGroup(key, one)),
  );
  if (ended !== undefined) {
    const [key, text] = ended;
    const left = without(key);
    const message = alarmMessage(state, 'ended', { key, text: `Over: ${text}`, data: {} });
    return { auditId, alarms: left, message };
  }
  const { entry, throughId } = await nextAudit(store.general, {
    after: auditId,
    actions: config.actions,
  });
  if (entry !== null) return { auditId: throughId, alarms, message: audited(entry) };
  return throughId === auditId ? undefined : { auditId: throughId, alarms };
}

const ALARM_ID_LENGTH = 32;

/** Its id is the same until it has arrived, and another one when the same alarm begins or ends again. */
function alarmMessage(
  { sentAt }: WebhookState,
  what: 'began' | 'ended',
  { key, text, data }: { readonly key: string; readonly text: string; readonly data: object },
): Message {
  // Without a dot, which stands between the parts of what is signed.
  const id = createHash('sha256')
    .update(JSON.stringify([key, what, sentAt]))
    .digest('hex');
  return {
    id: `alarm_${id.slice(0, ALARM_ID_LENGTH)}`,
    type: `alarm.${what}`,
    text,
    data: { alarm: key, ...data },
  };
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
