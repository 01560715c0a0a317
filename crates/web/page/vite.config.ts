import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { brotliCompressSync } from 'node:zlib';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig, type Plugin } from 'vite';

/** Writes `NAME.br` beside each hashed file: the server sends it to browsers that take it. */
function compressed(): Plugin {
  return {
    name: 'compressed',
    apply: 'build',
    closeBundle() {
      const folder = 'dist/assets';
      for (const name of readdirSync(folder)) {
        const path = join(folder, name);
        const small = brotliCompressSync(readFileSync(path));
        if (small.length < statSync(path).size) writeFileSync(`${path}.br`, small);
      }
    },
  };
}

export default defineConfig({
  plugins: [svelte(), compressed()],
  build: {
    target: 'es2022',
    // The policy of the page lets no browser take files from text in a document.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: {
    // For work on the page: the API of a server that runs on this machine.
    proxy: { '/v1': { target: 'https://127.0.0.1:1580', secure: false } },
  },
});
