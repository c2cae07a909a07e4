/**
 * What the groups of an identity provider may do here, as LEASEHOLD_OIDC_ROLES has it:
 * `ops=operator,eu-team=client@games.eu+games.uk,*=viewer`.
 */
import { LIMIT_NAMESPACES_MAX, limitNamespaceSchema } from '@leasehold/api/contract';
import { ORDERED_ROLES, type OrderedRole } from '@leasehold/keys-core';

/** What somebody may do; namespaces are null where nothing limits them. */
export interface Grant {
  readonly role: OrderedRole;
  readonly namespaces: readonly string[] | null;
}

/** What the members of a group may do; a group of null: everybody that no other rule is about. */
export interface GroupRule extends Grant {
  readonly group: string | null;
}

const EVERYBODY = '*';
const RULES_MAX = 1_000;
/** A token with more than this many groups is no answer that a provider gives. */
const GROUPS_MAX = 10_000;

/** What is wrong with the text of the rules; undefined when nothing is. Entries are named by their place. */
export function groupRulesProblem(text: string): string | undefined {
  const entries = text.split(',');
  if (entries.length > RULES_MAX) return `must have ${String(RULES_MAX)} entries at most`;
  const seen = new Set<string | null>();
  const namespaces = new Set<string>();
  for (const [index, entry] of entries.entries()) {
    const rule = ruleOf(entry);
    const what = `entry ${String(index + 1)}`;
    if (typeof rule === 'string') return `${what} ${rule}`;
    if (seen.has(rule.group)) return `${what} is about a group that has an entry already`;
    seen.add(rule.group);
    for (const namespace of rule.namespaces ?? []) namespaces.add(namespace);
  }
  // Somebody may be in all groups.
  if (namespaces.size > LIMIT_NAMESPACES_MAX) {
    return `must name ${String(LIMIT_NAMESPACES_MAX)} different namespaces at most`;
  }
  return undefined;
}

/** The rules of a text that has no problem. */
export function groupRulesOf(text: string): GroupRule[] {
  return text
    .split(',')
    .map(ruleOf)
    .filter((rule) => typeof rule !== 'string');
}

/** @returns what is wrong with an entry, as the end of a sentence. */
function ruleOf(entry: string): GroupRule | string {
  // The name of a group may have a "=", as that of a directory has.
  const [, name, roleName = '', namespaceText] =
    /^\s*(.+?)\s*=\s*([a-z]+)\s*(?:@\s*(\S+)\s*)?$/u.exec(entry) ?? [];
  if (name === undefined) {
    return 'must be GROUP=ROLE or GROUP=ROLE@NAMESPACE; in a group, %2C is a comma';
  }
  const role = ORDERED_ROLES.find((known) => known === roleName);
  if (role === undefined) return `must have a role of ${ORDERED_ROLES.join(', ')}`;
  const group = name === EVERYBODY ? null : decoded(name);
  if (group === undefined) {
    return 'has a "%" that is not followed by two hexadecimal digits: write %25';
  }
  if (namespaceText === undefined) return { group, role, namespaces: null };
  if (role === 'admin') return 'must not limit an admin to namespaces';
  const namespaces = namespaceText.split('+');
  const wrong = namespaces
    .map((namespace) => limitNamespaceSchema.safeParse(namespace).error?.issues[0]?.message)
    .find((problem) => problem !== undefined);
  return wrong === undefined ? { group, role, namespaces } : `has a namespace that ${wrong}`;
}

function decoded(text: string): string | undefined {
  try {
    return decodeURIComponent(text);
  } catch {
    return undefined;
  }
}

/**
 * What the members of these groups may do; undefined: nothing. The highest role counts, with the namespaces of
 * all rules that give it.
 */
export function grantOf(
  rules: readonly GroupRule[],
  groups: ReadonlySet<string>,
): Grant | undefined {
  const own = rules.filter(({ group }) => group !== null && groups.has(group));
  const counting = own.length > 0 ? own : rules.filter(({ group }) => group === null);
  const role = ORDERED_ROLES.findLast((one) => counting.some((rule) => rule.role === one));
  if (role === undefined) return undefined;
  const limits = counting.filter((rule) => rule.role === role).map(({ namespaces }) => namespaces);
  const named = limits.filter((namespaces) => namespaces !== null);
  const isLimited = named.length === limits.length;
  return { role, namespaces: isLimited ? [...new Set(named.flat())].sort() : null };
}

/** The groups that claims name: under the name of the claim, or along its path, as `realm_access.roles`. */
export function groupsIn(claims: Readonly<Record<string, unknown>>, claim: string): Set<string> {
  const value = claims[claim] ?? along(claims, claim.split('.'));
  const groups = typeof value === 'string' ? [value] : value;
  if (!Array.isArray(groups)) return new Set();
  return new Set(groups.slice(0, GROUPS_MAX).filter((group) => typeof group === 'string'));
}

function along(value: unknown, path: readonly string[]): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined;
  return along((value as Readonly<Record<string, unknown>>)[name], rest);
}
