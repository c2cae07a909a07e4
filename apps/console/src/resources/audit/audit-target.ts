import { parseResourceText, resourceText } from '@leasehold/keys-core';
import type { Outputs } from '~/lib/api/api.ts';
import { shortId } from '~/lib/format.ts';
import { routeOf, routes } from '~/lib/routes.ts';
import { keyOfAddress, keyText } from '~/resources/reservation-key.ts';

export type AuditEntry = Outputs['audit']['list']['items'][number];

/** What an act was done to: what it is, what people call it, and the page of it, where there is one. */
interface AuditTarget {
  readonly kind: string;
  readonly label: string;
  readonly href: string | null;
}

/** Pure. */
export function auditTarget(entry: Pick<AuditEntry, 'resource'> & { readonly detail?: unknown }) {
  const { resource } = entry;
  const detail = detailOf(entry);
  const colon = resource.indexOf(':');
  const kind = colon === -1 ? 'other' : resource.slice(0, colon);
  const id = colon === -1 ? resource : resource.slice(colon + 1);
  return targetOf({ kind, id, detail });
}

function targetOf({
  kind,
  id,
  detail,
}: {
  readonly kind: string;
  readonly id: string;
  readonly detail: Readonly<Record<string, unknown>>;
}): AuditTarget {
  const { face, namespace, name, email } = detail;
  if (typeof face === 'string' && typeof namespace === 'string' && typeof name === 'string') {
    const ref = { namespace, name };
    return { kind: face, label: resourceText(ref), href: routeOf(face, ref) };
  }
  const reserved = reservedKeyOf(kind, id, detail);
  if (reserved !== undefined) {
    return { kind: 'reservation', label: keyText(reserved), href: routes.reservation(reserved) };
  }
  if (kind === 'drone') return { kind, label: id, href: routes.drone(id) };
  if (kind === 'backend') return { kind, label: id, href: routes.backend(id) };
  if (kind === 'token') {
    return { kind, label: typeof name === 'string' ? name : labelOfId(id), href: routes.access() };
  }
  if (kind === 'person') {
    const label = typeof email === 'string' ? email : labelOfId(id);
    return { kind, label, href: routes.access({ tab: 'people' }) };
  }
  return { kind, label: id, href: null };
}

/** What was moved: a key by its full name, any other list as JSON. */
function reservedKeyOf(
  kind: string,
  id: string,
  detail: Readonly<Record<string, unknown>>,
): readonly string[] | undefined {
  if (kind === 'reservation') {
    const addressed = keyOfAddress(id);
    return 'key' in addressed ? addressed.key : undefined;
  }
  if (kind !== 'key' || typeof detail['reservationId'] !== 'string') return undefined;
  const { namespace, name } = parseResourceText(id);
  return [namespace, name];
}

const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/u;

/** The end of a UUID, which nobody reads whole; the entry itself has all of it. */
function labelOfId(id: string): string {
  return UUID.test(id) ? shortId(id) : id;
}

/** The detail of an entry, as fields. */
function detailOf(entry: { readonly detail?: unknown }): Readonly<Record<string, unknown>> {
  const { detail } = entry;
  return typeof detail === 'object' && detail !== null
    ? (detail as Readonly<Record<string, unknown>>)
    : {};
}

/** How it was done, where an act can be done in more than one way: `force`. */
export function modeOf(entry: { readonly detail?: unknown }): string | undefined {
  const { mode } = detailOf(entry);
  return typeof mode === 'string' ? mode : undefined;
}
