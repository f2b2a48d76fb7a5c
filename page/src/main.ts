// The page in a browser: with the data inside it, or from the server that it came from.

import { App } from "./app";
import { SnapshotSource, type Snapshot } from "./snapshot";
import { http, ServerSource, takeToken } from "./source";
import "./style.css";

const inside = document.getElementById("tastespace-data");
takeToken();
const snapshot = inside ? (JSON.parse(inside.textContent ?? "null") as Snapshot) : null;
const source = snapshot ? new SnapshotSource(snapshot) : new ServerSource(http);
const first = snapshot?.people[0]?.user;
void new App(document.body, source, { isWidget: false, ...(first === undefined || location.hash ? {} : { user: first }) }).start();
