/**
 * Connects and acquires that a role does not allow, or that are too many, are refused before their input is read. What
 * they ask for is read for the list of refusals alone.
 */
import { LeaseError, type Resource } from '@leasehold/keys-core';
import { callerOf } from './access.ts';
import { bounded, type BoundedInput } from './bounded-input.ts';
import type { ApiContext } from './context.ts';
import { connectInputSchema } from './contract/keys.ts';
import {
  acquireAllInputSchema,
  acquireEnvironmentInputSchema,
  acquireInputSchema,
  acquireItemSchema,
  acquireManyInputSchema,
  tryAcquireInputSchema,
} from './contract/leases.ts';

interface Asked {
  readonly resource: Resource;
  /** Null for a key. */
  readonly holder: string | null;
}

/** By procedure: what an input asks for. @throws {ZodError} for one that is not valid. */
const ASKED: Readonly<Record<string, (input: unknown) => Promise<Asked>>> = {
  'keys.connect': reading(bounded(connectInputSchema), ({ key }) =>
    askedOf('key', key?.namespace ?? '', key?.name ?? '', null),
  ),
  'leases.acquire': reading(bounded(acquireInputSchema), ({ namespace, key, holder }) =>
    askedOf('lease', namespace, key, holder),
  ),
  // The first one stands for all: nobody fills the list with one call.
  'leases.acquireAll': reading(bounded(acquireAllInputSchema), ({ scopes: [first], holder }) =>
    askedOf('lease', first?.namespace ?? '', first?.key ?? '', holder),
  ),
  'leases.acquireMany': reading(bounded(acquireManyInputSchema), ({ items: [first] }) => {
    const { namespace, key, holder } = acquireItemSchema.parse(first);
    return askedOf('lease', namespace, key, holder);
  }),
  'environments.tryAcquire': reading(bounded(tryAcquireInputSchema), ofEnvironment),
  'environments.acquire': reading(bounded(acquireEnvironmentInputSchema), ofEnvironment),
};

/**
 * Notes a refusal of a caller that is known, if it asks for something. Who has no token is nobody, and leaves nothing.
 * Never throws: an input that is not valid asks for nothing.
 */
export async function noteRefused(
  { access, services }: Pick<ApiContext, 'access' | 'services'>,
  { path, rawInput }: { readonly path: string; readonly rawInput: () => Promise<unknown> },
  error: unknown,
): Promise<void> {
  const read = ASKED[path];
  if (access === undefined || read === undefined || !(error instanceof LeaseError)) return;
  let asked: Asked;
  try {
    asked = await read(await rawInput());
  } catch {
    return;
  }
  const { actor, principal } = callerOf(access);
  const { code, message: reason } = error;
  const { resource, holder } = asked;
  services.refusals.note({ ...resource, holder, code, reason, actor, principal });
}

function reading<Input extends BoundedInput>(
  input: Input,
  askedIn: (given: Input['_output']) => Asked,
): (given: unknown) => Promise<Asked> {
  return async (given) => askedIn(await input.parse(given));
}

function askedOf(
  face: Resource['face'],
  namespace: string,
  name: string,
  holder: string | null,
): Asked {
  return { resource: { face, namespace, name }, holder };
}

function ofEnvironment({
  environment: { namespace, name },
  holder,
}: {
  readonly environment: { readonly namespace: string; readonly name: string };
  readonly holder: string;
}): Asked {
  return askedOf('environment', namespace, name, holder);
}
