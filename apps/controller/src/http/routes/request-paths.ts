import type { FastifyRequest } from 'fastify';

/** The procedures that a request calls: a batch names each in its path. */
export function pathsOf({ params, query }: Pick<FastifyRequest, 'params' | 'query'>): string[] {
  const { path } = params as { path?: string };
  if (path === undefined) return [];
  return (query as Record<string, unknown>)['batch'] === undefined ? [path] : path.split(',');
}

export function hasBody({ headers }: Pick<FastifyRequest, 'headers'>): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
