import type { TestController } from './test-controller.ts';

/** An answer as curl would print it. */
export interface WireAnswer {
  readonly status: number;
  readonly body: {
    result?: { data: unknown };
    error?: {
      message: string;
      data: {
        code: string;
        leaseholdCode: string;
        retryable: boolean;
        incidentId: string | null;
        details: unknown;
      };
    };
  };
}

/** Calls as curl would: no client library in between. */
export async function call(
  on: TestController,
  path: string,
  request: { method?: 'GET' | 'POST'; body?: string; secret?: string; type?: string } = {},
): Promise<WireAnswer> {
  const response = await fetch(`${on.url}${path}`, {
    method: request.method ?? (request.body === undefined ? 'GET' : 'POST'),
    headers: {
      ...(request.secret === undefined ? {} : { authorization: `Bearer ${request.secret}` }),
      ...(request.body === undefined ? {} : { 'content-type': request.type ?? 'application/json' }),
    },
    ...(request.body === undefined ? {} : { body: request.body }),
  });
  return { status: response.status, body: (await response.json()) as WireAnswer['body'] };
}

/** The part of an address that carries the input of a query. */
export const input = (value: unknown): string =>
  `?input=${encodeURIComponent(JSON.stringify(value))}`;

/** Posts a mutation and returns its answer's data, or the code of its error. */
export async function mutate(
  on: TestController,
  path: string,
  request: { readonly secret: string; readonly input: unknown },
): Promise<unknown> {
  const body = JSON.stringify(request.input);
  return outcomeOf(await call(on, `/trpc/${path}`, { body, secret: request.secret }));
}

/** Sends a query and returns its answer's data, or the code of its error. */
export async function query(
  on: TestController,
  path: string,
  request: { readonly secret: string; readonly input?: unknown },
): Promise<unknown> {
  const asked = request.input === undefined ? '' : input(request.input);
  return outcomeOf(await call(on, `/trpc/${path}${asked}`, { secret: request.secret }));
}

function outcomeOf({ body }: WireAnswer): unknown {
  return body.error === undefined ? body.result?.data : body.error.data.leaseholdCode;
}
