import { AUDIT_ACTIONS, type AuditAction } from '@leasehold/keys-core';
import { isHttpUrl, sharedSecret } from '@leasehold/service-kit/variables';
import { z } from 'zod';

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
export const SECRET_PREFIX = 'whsec_';
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
