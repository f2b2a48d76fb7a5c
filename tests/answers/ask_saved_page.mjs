// Asks the page's own code for saved pages: reads {page, questions} as JSON from stdin, writes the answers as JSON.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const page = join(dirname(fileURLToPath(import.meta.url)), "../../page");
const { build } = await import(pathToFileURL(join(page, "node_modules/esbuild/lib/main.js")).href);
const bundled = await build({ entryPoints: [join(page, "src/snapshot.ts")], bundle: true, write: false, format: "esm" });
const { SnapshotSource } = await import(`data:text/javascript,${encodeURIComponent(bundled.outputFiles[0].text)}`);

const { data, questions } = JSON.parse(readFileSync(0, "utf8"));
const source = new SnapshotSource(data);
const answers = [];
for (const [method, ...args] of questions) answers.push(await source[method](...args));
console.log(JSON.stringify(answers));
