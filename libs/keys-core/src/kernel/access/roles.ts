/**
 * What a token may do. Each ordered role may do what the ones before it may; `drone` is separate: only the
 * drone procedures of its own id. `peer` is separate too: a controller of another datacenter, which
 * is known by the secret that the pair shares and has no token.
 */
export const ORDERED_ROLES = ['viewer', 'client', 'operator', 'admin'] as const;
/** What a token can be made with. */
export const TOKEN_ROLES = [...ORDERED_ROLES, 'drone'] as const;
export const ROLES = [...TOKEN_ROLES, 'peer'] as const;
export type OrderedRole = (typeof ORDERED_ROLES)[number];
export type TokenRole = (typeof TOKEN_ROLES)[number];
export type Role = (typeof ROLES)[number];

function isOrdered(role: Role): role is OrderedRole {
  return role !== 'drone' && role !== 'peer';
}

/** Whether `role` may do what needs `needed`. */
export function roleAllows(role: Role, needed: Role): boolean {
  if (!isOrdered(role) || !isOrdered(needed)) return role === needed;
  return ORDERED_ROLES.indexOf(role) >= ORDERED_ROLES.indexOf(needed);
}
