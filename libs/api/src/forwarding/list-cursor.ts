import { LeaseError } from '@leasehold/keys-core';
import { z } from 'zod';
import { cursorSchema, datacenterSchema } from '../contract/common.ts';

/** Where a list of all datacenters continues: in which datacenter, and where in its own list. */
export interface ListPlace {
  readonly datacenter: string;
  readonly cursor: string | undefined;
}

const placeSchema = z.tuple([datacenterSchema, cursorSchema.optional()]);

export function encodePlace({ datacenter, cursor }: ListPlace): string {
  const parts = cursor === undefined ? [datacenter] : [datacenter, cursor];
  return Buffer.from(JSON.stringify(parts)).toString('base64url');
}

/** @throws {LeaseError} `request.invalid`. */
export function decodePlace(text: string): ListPlace {
  const parsed = placeSchema.safeParse(jsonOf(Buffer.from(text, 'base64url').toString()));
  if (!parsed.success) {
    throw new LeaseError('request.invalid', 'cursor: must be one that a list has answered', {
      details: { field: 'cursor' },
    });
  }
  const [datacenter, cursor] = parsed.data;
  return { datacenter, cursor };
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
