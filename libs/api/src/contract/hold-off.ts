import { z } from 'zod';
import { placedFields, reasonSchema } from './common.ts';

export const holdOffInputSchema = z.strictObject(placedFields).prefault({});

export const holdOffEndInputSchema = z.strictObject({ reason: reasonSchema, ...placedFields });
