/** How the site reads Markdown: links lead to its own pages, anchors are those of git hosts, diagrams are drawn inline. */
import { readFileSync } from 'node:fs';
import path from 'node:path';
import type { MarkdownOptions } from 'vitepress';
import { createLinks } from './links.ts';
import type { Page } from './pages.ts';
import { ROOT } from './root.ts';

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
