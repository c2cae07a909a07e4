import type {
  ackInputSchema,
  heartbeatInputSchema,
  keyRenewInputSchema,
  sessionInputSchema,
} from '@leasehold/api/contract';
import type { z } from 'zod';

/** What the agent sends. */
export type SessionInput = z.input<typeof sessionInputSchema>;
export type HeartbeatInput = z.input<typeof heartbeatInputSchema>;
export type AckInput = z.input<typeof ackInputSchema>;
export type RenewInput = z.input<typeof keyRenewInputSchema>;
