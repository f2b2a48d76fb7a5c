// The page in a cell of a notebook: requests go to the kernel as messages of the widget (anywidget).

import { App } from "./app";
import { AnswerError, RemoteSource, type Transport } from "./source";
import type { Id } from "./types";
import "./style.css";

interface WidgetModel {
  get(name: string): unknown;
  on(event: string, act: (message: Answer) => void): void;
  off(event: string, act: (message: Answer) => void): void;
  send(message: unknown): void;
}

interface Answer {
  id: number;
  status: number;
  answer: { error?: { message: string } };
}

function render({ model, el }: { model: WidgetModel; el: HTMLElement }): () => void {
  const waiting = new Map<number, (answer: Answer) => void>();
  const receive = (message: Answer): void => {
    waiting.get(message.id)?.(message);
    waiting.delete(message.id);
  };
  let asked = 0;
  const transport: Transport = (method, path, query, body) =>
    new Promise((resolve, reject) => {
      const id = asked++;
      waiting.set(id, ({ status, answer }) => {
        if (status === 200) resolve(answer);
        else reject(new AnswerError(status, answer.error?.message ?? `status ${status}`));
      });
      model.send({ id, method, path, query, body: body ?? null });
    });
  model.on("msg:custom", receive);
  const root = document.createElement("div");
  el.append(root);
  const user = model.get("user") as Id | null;
  void new App(root, new RemoteSource(transport), { isWidget: true, ...(user === null ? {} : { user }) }).start();
  return () => model.off("msg:custom", receive);
}

export default { render };
