/** Documents that generated pages begin with, or quote. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { createLinks } from '../links.ts';
import { sections } from '../pages.ts';
import { ROOT } from '../root.ts';

/** What a document says below its title, with its links leading to pages of the site. */
export function writtenText(file: string): string {
  const text = readFileSync(path.join(ROOT, file), 'utf8');
  return linkedOnSite(text.replace(/^# .*\n+/u, ''), file).trim();
}

/** The text of a document with its links leading to pages of the site. */
export function linkedOnSite(text: string, file: string): string {
  const links = createLinks(sections().flatMap(({ pages }) => pages));
  return text.replaceAll(/\[([^\]]*)\]\(([^)]*)\)/gu, (whole, name: string, href: string) => {
    const resolved = links.resolve(href, file);
    if (resolved.kind === 'kept') return whole;
    return resolved.kind === 'page' ? `[${name}](${resolved.href})` : name;
  });
}
