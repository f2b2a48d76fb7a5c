// Sliders of people whom the server knows are kept there, a moment after the last move.

import type { Source } from "./source";
import { AnswerError } from "./source";
import type { Choices, Id, Interests } from "./types";

const WAIT = 500; // milliseconds without a move
const FOR_GOOD = [401, 403, 404, 405, 501]; // this server keeps nothing for this visitor

export class ProfileKeeper {
  private waiting: { user: Id; choices: Choices } | null = null;
  private timer = 0;
  private sent = Promise.resolve();
  private readonly here = new Map<string, Choices>(); // what the server has not kept, for this visit
  private isRefused = false;
  private hasSaid = false;

  constructor(
    private readonly source: Source,
    private readonly say: (text: string) => void,
  ) {
    window.addEventListener("pagehide", () => void this.send());
  }

  changed(user: Id, choices: Choices): void {
    this.waiting = { user, choices };
    window.clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.flush(), WAIT);
  }

  // Sends what waits, after what was sent before; never fails.
  flush(): Promise<void> {
    this.sent = this.sent.then(() => this.send());
    return this.sent;
  }

  private async send(): Promise<void> {
    window.clearTimeout(this.timer);
    const { waiting } = this;
    this.waiting = null;
    if (!waiting) return;
    const who = String(waiting.user);
    this.here.set(who, waiting.choices);
    if (this.isRefused || !this.source.keepProfile) return;
    try {
      await this.source.keepProfile(waiting.user, waiting.choices);
      if (this.here.get(who) === waiting.choices) this.here.delete(who);
    } catch (problem) {
      this.isRefused = problem instanceof AnswerError && FOR_GOOD.includes(problem.status);
      if (!this.hasSaid) this.say("The server does not keep these settings. They hold for this visit.");
      this.hasSaid = true;
    }
  }

  // Interests of the user with what was chosen in this visit.
  applied(user: Id, found: Interests): Interests {
    const kept = this.here.get(String(user));
    if (!kept) return found;
    const interests = found.interests.map((one) => ({
      ...one,
      muted: kept.mute.includes(one.interest),
      boost: kept.boost[one.interest] ?? 1,
    }));
    return { ...found, interests };
  }
}
