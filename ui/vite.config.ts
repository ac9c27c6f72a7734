import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const SERVICE = process.env.GRAVELER_ENDPOINT ?? "http://127.0.0.1:8000";
const OPEN = ["MIT", "Apache-2.0", "BSD-3-Clause", "ISC", "0BSD", "MIT OR Apache-2.0"];

/** What pages share is one file: a page needs that of its own beside it, and few requests. */
const SHARED = /\/src\/(api|app|parts)\/|viewers\/kinds|workers\/start|rolldown.runtime|preact/;

/** The folder of the package that a module belongs to; empty for a module of our own. */
function packageOf(module: string): string {
  const path = module.replace(/^\0/, "").split("?")[0] ?? "";
  if (!path.includes("/node_modules/")) return "";
  let folder = dirname(path);
  while (!existsSync(join(folder, "package.json")) || !namedIn(folder)) folder = dirname(folder);
  return folder;
}

function namedIn(folder: string): boolean {
  return Boolean(JSON.parse(readFileSync(join(folder, "package.json"), "utf8")).version);
}

/** The packages in the bundle and in its workers. */
const folders = new Set<string>();

function noted(): Plugin {
  return {
    name: "noted",
    transform(_code, id) {
      const folder = packageOf(id);
      if (folder) folders.add(folder);
    },
  };
}

/** Writes the licences of all of them; fails for one that is not open. */
function licences(): Plugin {
  return {
    name: "licences",
    generateBundle() {
      const texts = [...folders].sort().map((folder) => {
        const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
        if (!OPEN.includes(about.license)) {
          this.error(`${about.name} has no open licence: ${about.license}`);
        }
        const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
        const text = file ? readFileSync(join(folder, file), "utf8") : "(no text in the package)";
        return `${about.name} ${about.version}: ${about.license}\n\n${text.trim()}\n`;
      });
      const source = texts.join(`\n${"-".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

export default defineConfig({
  base: "./",
  resolve: { alias: { hysnappy: join(import.meta.dirname, "src/workers/no-snappy.ts") } },
  plugins: [noted(), licences()],
  worker: {
    format: "es",
    plugins: () => [noted()],
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name]-worker.js",
        chunkFileNames: "assets/[name]-part.js",
      },
    },
  },
  build: {
    outDir: "../graveler/ui/static",
    manifest: "manifest.json", // from which the service says what a page needs
    emptyOutDir: true,
    target: "es2022",
    cssTarget: ["chrome123", "firefox121", "safari17.5"], // the first with light-dark()
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/[name].js",
        chunkFileNames: "assets/[name].js",
        codeSplitting: {
          groups: [{ name: "shared", test: SHARED }],
          includeDependenciesRecursively: false,
        },
        assetFileNames: "assets/[name][extname]",
      },
    },
  },
  server: {
    port: 5173,
    proxy: Object.fromEntries(
      ["/api", "/_presigned", "/openapi.json", "/docs"].map((path) => [path, SERVICE]),
    ),
  },
});
