/**
 * The one form in which people read and type resources: `user.update/42`, and `42` in the root. The
 * first `/` ends the namespace. So a `/` inside a namespace is written `%2F`, and a root name with one gets
 * another in front: no two resources have the same text. {@link parseResourceText} reads it.
 */
import type { Named } from './resource.ts';
export function resourceText({ namespace, name }: Named): string {
  if (namespace === '' && !name.includes('/')) return name;
  return `${namespaceText(namespace)}/${name}`;
}

/** A namespace as {@link resourceText} writes it. */
export function namespaceText(namespace: string): string {
  return namespace.replaceAll(/%(?=2F|25)|\//gu, (char) => (char === '/' ? '%2F' : '%25'));
}

/** The resource of a text that {@link resourceText} wrote, or that somebody typed. */
export function parseResourceText(text: string): Named {
  const slash = text.indexOf('/');
  if (slash === -1) return { namespace: '', name: text };
  const namespace = text
    .slice(0, slash)
    .replaceAll(/%(2F|25)/gu, (_, code) => (code === '25' ? '%' : '/'));
  return { namespace, name: text.slice(slash + 1) };
}
