/** What the table of `docs/reference/configuration.md` says about variables. One row may be about several: `LEASEHOLD_ETCD_USER`, `_PASSWORD`. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { ROOT } from '../root.ts';
import { tablesOf } from './markdown-tables.ts';
import { linkedOnSite } from './written-text.ts';

export interface Documented {
  readonly name: string;
  /** All names of its row, as the table has them. */
  readonly title: string;
  readonly fallback: string | undefined;
  readonly meaning: string;
}

export const CONFIGURATION = 'docs/reference/configuration.md';

const onSite = (text: string): string => linkedOnSite(text, CONFIGURATION);

/** By name. `known` are the whole names of variables: the table shortens some. */
export function documentedVariables(known: readonly string[]): ReadonlyMap<string, Documented> {
  const text = readFileSync(path.join(ROOT, CONFIGURATION), 'utf8');
  const table = tablesOf(text).find(({ head }) => head[0] === 'variable');
  const found = new Map<string, Documented>();
  for (const [title = '', defaults = '', meaning = ''] of table?.rows ?? []) {
    const written = [...title.matchAll(/`(\w+)`/gu)].map(([, name = '']) => name);
    const names = written.map((name, nth) =>
      name.startsWith('_') ? wholeName(name, written.slice(0, nth), known) : name,
    );
    const each = defaults.split(', ');
    for (const [nth, name] of names.entries()) {
      // One default for all of a row, or one for each.
      const own = each.length === names.length ? each[nth] : defaults;
      found.set(name, { name, title, fallback: onSite(own ?? ''), meaning: onSite(meaning) });
    }
  }
  return found;
}

/** `_PASSWORD` after `LEASEHOLD_ETCD_USER`: the variable that has most of its beginning. */
function wholeName(ending: string, before: readonly string[], known: readonly string[]): string {
  const first = before.find((name) => !name.startsWith('_')) ?? '';
  const parts = first.split('_');
  for (let count = parts.length; count > 0; count -= 1) {
    const name = parts.slice(0, count).join('_') + ending;
    if (known.includes(name)) return name;
  }
  return parts.slice(0, -1).join('_') + ending;
}
