/**
 * Prisma's client in a bundle. It is made if it is not there yet; and its query compiler, WebAssembly of 1.7 MB whose
 * text in base64 would be 2.3 MB, is compressed: it is unpacked by the first typed query of a process.
 */
import { readFile } from 'node:fs/promises';
import { brotliCompressSync } from 'node:zlib';
import { ensureClient } from './prisma-generate.mjs';

const COMPILER = /\/query_compiler_small_bg\.postgresql\.wasm-base64\.m?js$/;

/** A plugin of esbuild. */
export const prismaClient = {
  name: 'prisma-client',
  setup({ onStart, onLoad }) {
    onStart(ensureClient);
    onLoad({ filter: COMPILER }, async ({ path }) => {
      const [, text] = /"([A-Za-z0-9+/=]+)"/u.exec(await readFile(path, 'utf8')) ?? [];
      if (text === undefined) throw new Error(`${path}: no text in base64`);
      const packed = brotliCompressSync(Buffer.from(text, 'base64')).toString('base64');
      return {
        contents: `import { brotliDecompressSync } from 'node:zlib';
const packed = Buffer.from('${packed}', 'base64');
export const wasm = brotliDecompressSync(packed).toString('base64');`,
      };
    });
  },
};
