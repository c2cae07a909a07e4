/** The addresses at which browsers reach keys. Pure: a gateway reads what a controller writes. */
import { createHash } from 'node:crypto';
import type { Named } from '../kernel/resource.ts';

/** Where browsers reach keys. */
export interface GatewayAddresses {
  /** As an origin; null without a gateway. */
  readonly url: string | null;
  /** What follows the id of a key in the name of its own host, with its first dot; null: keys have no hosts. */
  readonly hosts: string | null;
}

/** Stands for the root namespace in a path. */
export const ROOT_NAMESPACE = '_';

/** Reads as the namespace of that name: only the sign itself stands for the root. */
const NAMED_AS_ROOT = '%5F';

/** The path under which a key is reached: both names are percent-encoded, so neither has a slash. */
export function keyPrefix({ namespace, name }: Named): string {
  const encoded = namespace === ROOT_NAMESPACE ? NAMED_AS_ROOT : encodeURIComponent(namespace);
  return `/k/${namespace === '' ? ROOT_NAMESPACE : encoded}/${encodeURIComponent(name)}`;
}

/** Browsers take such a part of a path for a folder, in every way to write it. */
const DOTS = new Set(['.', '..']);

const HOST_LABEL_LENGTH = 32;

/** The label of a key's own host. A hash: names have other characters than hosts, and other lengths. */
export function keyHostLabel({ namespace, name }: Named): string {
  const hash = createHash('sha256').update(`${namespace}\0${name}`).digest('hex');
  return hash.slice(0, HOST_LABEL_LENGTH);
}

/**
 * Where a key is reached: with a token by all who have the address, without one by those who have a cookie or send a
 * token in a header. Null without a gateway, and for a key that no path can name.
 */
export function keyUrl(
  { url, hosts }: GatewayAddresses,
  key: Named,
  token?: string,
): string | null {
  if (url === null || (hosts === null && DOTS.has(key.name))) return null;
  const { protocol } = new URL(url);
  const own = hosts === null ? url : `${protocol}//${keyHostLabel(key)}${hosts}`;
  if (token !== undefined) return `${own}/t/${token}/`;
  return hosts === null ? `${own}${keyPrefix(key)}/` : `${own}/`;
}
