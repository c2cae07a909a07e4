/** How the site reads Markdown: links lead to its own pages, anchors are those of git hosts, diagrams are drawn inline. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { MarkdownOptions, UserConfig } from 'vitepress';
import { addressOf, documentOf, isWritten, type Page, ROOT, sections } from './pages.ts';

/** The parser, as the site generator types it. */
type Parser = Parameters<NonNullable<MarkdownOptions['config']>>[0];
type Token = ReturnType<Parser['parse']>[number];

/** What a heading is called in an address: as git hosts do it, because links in the documents rely on that. */
export function anchorOf(heading: string): string {
  return heading
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}_\- ]/gu, '')
    .replaceAll(' ', '-');
}

/** Adds both rules to a parser. */
export function readAsSite(parser: Parser, pages: readonly Page[]): void {
  const links = createLinks(pages);
  parser.core.ruler.push('heads-of-tables', (state) => {
    state.tokens = withoutEmptyHeads(state.tokens);
  });
  parser.core.ruler.push('links-of-the-site', (state) => {
    const env = state.env as { relativePath?: string };
    const source = links.sourceOf.get(env.relativePath ?? '');
    if (source === undefined) return;
    for (const token of state.tokens) {
      if (token.children === null) continue;
      token.children = withLinks(token.children, (href) => links.resolve(href, source));
      for (const image of token.children) if (image.type === 'image') drawInline(image, source);
    }
  });
}

/** Heads without a text are no heads: the corner of a table becomes a cell, a row of empty heads is left out. */
function withoutEmptyHeads(tokens: readonly Token[]): Token[] {
  const kept: Token[] = [];
  for (const token of tokens) {
    kept.push(token);
    if (token.type === 'th_close' && kept.at(-2)?.content === '') {
      token.tag = 'td';
      const open = kept.at(-3);
      if (open !== undefined) open.tag = 'td';
    }
    if (token.type !== 'thead_close') continue;
    const begin = kept.findLastIndex(({ type }) => type === 'thead_open');
    const hasText = kept.slice(begin).some(({ type, tag }) => type === 'th_open' && tag === 'th');
    if (!hasText) kept.length = begin;
  }
  return kept;
}

function withLinks(
  tokens: Token[],
  resolve: (href: string) => ReturnType<ReturnType<typeof createLinks>['resolve']>,
): Token[] {
  const kept: Token[] = [];
  // Links contain no links.
  let isUnlinked = false;
  for (const token of tokens) {
    if (token.type === 'link_open') {
      const resolved = resolve(token.attrGet('href') ?? '');
      isUnlinked = resolved.kind === 'unlinked';
      if (resolved.kind === 'page') token.attrSet('href', resolved.href);
      if (!isUnlinked) kept.push(token);
    } else if (token.type === 'link_close' && isUnlinked) {
      isUnlinked = false;
    } else {
      kept.push(token);
    }
  }
  return kept;
}

/**
 * An image that is a drawing becomes part of the page, where it has the colours of the page's theme. Its own
 * style is for git hosts.
 */
function drawInline(token: Token, source: string): void {
  const place = token.attrGet('src') ?? '';
  if (!place.endsWith('.svg')) return;
  const file = path.join(ROOT, path.dirname(source), decodeURI(place));
  token.type = 'html_inline';
  const drawing = readFileSync(file, 'utf8')
    .replace(/<style>.*?<\/style>/su, '')
    .replaceAll(/\s*\n\s*/gu, ' ')
    .trim();
  // On a phone it is scrolled, by keyboard too.
  token.content = `<span class="diagram-frame" tabindex="0">${drawing}</span>`;
}

/** A plugin of the bundler that makes the pages. */
type Plugin = Extract<
  NonNullable<NonNullable<UserConfig['vite']>['plugins']>[number],
  { readonly name: string }
>;

/** The folder of the package that a module is of, below the folder of the repository. */
function packageFolderOf(module: string): string | undefined {
  return /^.*node_modules\/(?:@[^/]+\/)?[^/]+/u.exec(path.relative(ROOT, module))?.[0];
}

/**
 * Lists the packages of others that pages load, each with its bytes, in the file that the bundles of programs have
 * too (`tools/build/inside.mjs`): the package that ships the pages passes their licenses on.
 */
export function insideList(folder: string): Plugin {
  const sizes = new Map<string, number>();
  return {
    name: 'inside-list',
    generateBundle(_options, bundle) {
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== 'chunk') continue;
        for (const [id, { renderedLength }] of Object.entries(chunk.modules)) {
          const owner = packageFolderOf(id.replace('\0', ''));
          if (owner !== undefined) sizes.set(owner, (sizes.get(owner) ?? 0) + renderedLength);
        }
      }
    },
    async closeBundle() {
      const list = JSON.stringify(Object.fromEntries([...sizes].sort()), null, 2);
      await mkdir(folder, { recursive: true });
      await writeFile(path.join(folder, 'inside.json'), `${list}\n`);
    },
  };
}

/**
 * What becomes of a link of a document, which is a relative path, so that it works where the repository is read, too.
 * `unlinked`: to a file of the sources, which the site does not have.
 */
type Resolved =
  | { readonly kind: 'kept' }
  | { readonly kind: 'page'; readonly href: string }
  | { readonly kind: 'unlinked' };

/** Finds where the links of documents lead. */
export function createLinks(pages: readonly Page[]) {
  const bySource = new Map(
    pages.flatMap((page) => {
      const source = documentOf(page);
      return source === undefined ? [] : [[source, addressOf(page)] as const];
    }),
  );
  return {
    /** The file that the page of an address was made from, if it is written by hand. */
    sourceOf: new Map(pages.filter(isWritten).map(({ source, to }) => [`${to}.md`, source])),

    /** @throws {Error} when there is nothing at the place that the link names. */
    resolve(href: string, source: string): Resolved {
      if (/^(?:[a-z][a-z+.-]*:|\/\/|#)/u.test(href)) return { kind: 'kept' };
      const [place = '', anchor] = href.split('#');
      const file = documentAt(path.posix.join(path.posix.dirname(source), place));
      if (file === undefined) throw new Error(`${source} links to ${href}: there is no such file`);
      const address = bySource.get(file);
      if (address === undefined) return { kind: 'unlinked' };
      return { kind: 'page', href: anchor === undefined ? address : `${address}#${anchor}` };
    },
  };
}

/** A folder stands for the document that introduces it. */
function documentAt(place: string): string | undefined {
  const absolute = path.join(ROOT, place);
  if (!existsSync(absolute)) return undefined;
  if (!statSync(absolute).isDirectory()) return place;
  const readme = path.posix.join(place, 'README.md');
  return existsSync(path.join(ROOT, readme)) ? readme : place;
}

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

interface Table {
  readonly head: readonly string[];
  readonly rows: readonly (readonly string[])[];
}

/** All tables of a text, in their order. */
export function tablesOf(text: string): Table[] {
  return [...text.matchAll(/(?:^\|.*\|$\n?){2,}/gmu)].map(([table]) => {
    const [head = [], , ...rows] = table.trim().split('\n').map(cellsOf);
    return { head, rows };
  });
}

function cellsOf(line: string): string[] {
  return line
    .slice(1, -1)
    .split(/(?<!\\)\|/u)
    .map((cell) => cell.trim());
}
