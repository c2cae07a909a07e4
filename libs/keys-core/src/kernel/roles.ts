/**
 * What a token may do. Each of the ladder may do what the ones before it may; `drone` is apart: the
 * drone procedures of its own id alone.
 */
export const LADDER_ROLES = ['viewer', 'client', 'operator', 'admin'] as const;
export const ROLES = [...LADDER_ROLES, 'drone'] as const;
export type LadderRole = (typeof LADDER_ROLES)[number];
export type Role = (typeof ROLES)[number];

/** Whether `role` may do what needs `needed`. */
export function roleAllows(role: Role, needed: Role): boolean {
  if (role === 'drone' || needed === 'drone') return role === needed;
  return LADDER_ROLES.indexOf(role) >= LADDER_ROLES.indexOf(needed);
}
