import type {
  ackInputSchema,
  answerInputSchema,
  goodbyeInputSchema,
  heartbeatInputSchema,
  keyRenewInputSchema,
  reportInputSchema,
  sessionInputSchema,
} from '@leasehold/api/contract';
import type { ControllerApi } from '@leasehold/client';
import type { z } from 'zod';

/** What the agent sends. */
export type SessionInput = z.input<typeof sessionInputSchema>;
export type HeartbeatInput = z.input<typeof heartbeatInputSchema>;
export type GoodbyeInput = z.input<typeof goodbyeInputSchema>;
export type AnswerInput = z.input<typeof answerInputSchema>;
export type AckInput = z.input<typeof ackInputSchema>;
export type RenewInput = z.input<typeof keyRenewInputSchema>;
export type ReportInput = z.input<typeof reportInputSchema>;

/** What it is answered. */
export type RenewResult = Awaited<
  ReturnType<ControllerApi['keys']['renew']['mutate']>
>['results'][number];
