import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { UserConfig } from 'vitepress';
import { ROOT } from './root.ts';

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
