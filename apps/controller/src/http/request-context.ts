import type { ApiContext, ApiServices } from '@leasehold/api';
import type { TokenAuthority } from '@leasehold/keys-core/store';
import type { IncomingMessage } from 'node:http';

export interface ContextDeps {
  readonly services: ApiServices;
  readonly tokens: TokenAuthority;
}

/** What a request or a connection comes with, whichever way it came. */
export async function requestContext(
  deps: ContextDeps,
  request: IncomingMessage,
  call: { readonly token?: string | undefined; readonly signal: AbortSignal },
): Promise<ApiContext> {
  const secret = call.token ?? bearerOf(request);
  return {
    access: secret === undefined ? undefined : await deps.tokens.authenticate(secret),
    services: deps.services,
    signal: call.signal,
    source: request.socket.remoteAddress ?? null,
  };
}

/** The secret of `Authorization: Bearer …`. */
export function bearerOf(request: IncomingMessage): string | undefined {
  return /^Bearer (\S+)$/u.exec(request.headers.authorization ?? '')?.[1];
}
