import type { Locator, Page } from '@playwright/test';

/** A person at a page, whose steps are counted. */
export interface Steps {
  /** One step: one key or combination. */
  press(combination: string): Promise<void>;
  /** No step: what somebody looks for must be said in any case. */
  type(text: string): Promise<void>;
  /** One step. */
  click(what: Locator): Promise<void>;
  /** The steps until now. */
  count(): number;
}

/** Counts what a person does to get an answer: each key or combination, and each click. */
export function stepsOn(page: Page): Steps {
  let count = 0;
  return {
    async press(combination) {
      count += 1;
      await page.keyboard.press(combination);
    },
    type: (text) => page.keyboard.type(text),
    async click(what) {
      count += 1;
      await what.click();
    },
    count: () => count,
  };
}
