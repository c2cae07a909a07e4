/**
 * Acts that somebody has asked for in this tab and wants to see through to their end. They stay while
 * the console is walked through, and a reload keeps them.
 */
import { createSignal, type Signal } from '~/lib/signal.ts';

const KEPT_MAX = 3;

export interface Followed<Act> {
  readonly acts: Signal<readonly Act[]>;
  /** Begins to follow an act; of many, the newest are kept. */
  follow(act: Act): void;
  /** Somebody has seen enough of it, or it was refused. */
  unfollow(id: string): void;
  /** Reads what this person followed in this tab before it was loaded again. */
  read(actor: string): void;
}

/** `name`: under which the browser keeps them; `idOf`: what tells an act from another. */
export function createFollowed<Act>(name: string, idOf: (act: Act) => string): Followed<Act> {
  /** With whose they are: another person who signs in in this tab has not made them. */
  let stored = name;
  const acts = createSignal<readonly Act[]>([]);
  const others = (id: string): readonly Act[] => acts.get().filter((act) => idOf(act) !== id);
  const store = (all: readonly Act[]): void => {
    const kept = all.slice(0, KEPT_MAX);
    acts.set(kept);
    window.sessionStorage.setItem(stored, JSON.stringify(kept));
  };
  return {
    acts,
    follow(act) {
      store([act, ...others(idOf(act))]);
    },
    unfollow(id) {
      store(others(id));
    },
    read(actor) {
      stored = `${name} ${actor}`;
      const text = window.sessionStorage.getItem(stored);
      if (text === null) {
        acts.set([]);
        return;
      }
      try {
        acts.set(JSON.parse(text) as Act[]);
      } catch {
        window.sessionStorage.removeItem(stored);
      }
    },
  };
}
