/** Leaves zod's messages in forty languages out of a bundle: ours are in English, and they are half of zod. */
const LANGUAGES = /\/zod\/v4\/locales\/index\.(?:js|cjs)$/;

/** A plugin of esbuild. */
export const zodInEnglish = {
  name: 'zod-in-english',
  setup({ onLoad }) {
    onLoad({ filter: LANGUAGES }, () => ({ contents: "export { default as en } from './en.js';" }));
  },
};
