import { roleAllows, type Role } from '@leasehold/keys-core';

/** Why somebody may not do a thing; undefined when they may. The controller decides again. */
export function whyNot(role: Role, needed: Role): string | undefined {
  if (roleAllows(role, needed)) return undefined;
  return `This needs the role ${needed}; yours is ${role}.`;
}
