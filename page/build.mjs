// Builds the pages into the package: index.html, admin.html, static files whose names change with their content, and the widget.
// With --out FOLDER into another folder, as the test does that compares both.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const given = process.argv.indexOf("--out");
const out = resolve(given > 0 ? process.argv[given + 1] : join(here, "../src/tastespace/answers/page"));

async function bundle(entry, format) {
  const { outputFiles } = await build({
    entryPoints: [join(here, "src", entry)],
    absWorkingDir: here,
    outdir: "out",
    bundle: true,
    minify: true,
    write: false,
    format,
    target: ["es2022"],
    charset: "utf8",
    legalComments: "none",
  });
  const text = (ending) => outputFiles.find((file) => file.path.endsWith(ending)).text;
  return { script: text(".js"), style: text(".css") };
}

const hashed = (name, ending, content) =>
  `${name}-${createHash("sha256").update(content).digest("hex").slice(0, 10)}.${ending}`;

const page = await bundle("main.ts", "iife");
const admin = await bundle("admin.ts", "iife");
const widget = await bundle("widget.ts", "esm");
const icon = readFileSync(join(here, "icon.svg"), "utf8");
const files = {
  ICON: [hashed("icon", "svg", icon), icon],
  STYLE: [hashed("page", "css", page.style), page.style],
  SCRIPT: [hashed("page", "js", page.script), page.script],
  ADMIN_STYLE: [hashed("admin", "css", admin.style), admin.style],
  ADMIN_SCRIPT: [hashed("admin", "js", admin.script), admin.script],
};

rmSync(out, { recursive: true, force: true });
mkdirSync(join(out, "static"), { recursive: true });
for (const name of ["index.html", "admin.html"]) {
  let text = readFileSync(join(here, name), "utf8");
  for (const [mark, [file]] of Object.entries(files)) text = text.replace(`static/${mark}"`, `static/${file}"`);
  writeFileSync(join(out, name), text);
}
for (const [file, content] of Object.values(files)) writeFileSync(join(out, "static", file), content);
writeFileSync(join(out, "widget.js"), widget.script);
writeFileSync(join(out, "widget.css"), widget.style);
